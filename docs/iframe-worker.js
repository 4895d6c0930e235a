// Browsers start no worker from a file. A site that is read from the disk searches in a hidden frame instead.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.body.appendChild(document.createElement("iframe"));
      frame.hidden = true;
      this.inside = frame.contentWindow;
      this.loaded = new Promise((done) => (this.inside.begin = done));
      this.inside.answer = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      this.inside.document.write(`<body><script>
        postMessage = answer;
        importScripts = (...urls) => urls.reduce((before, url) => before.then(() => new Promise((done) => {
          const script = document.createElement("script");
          script.onload = done;
          script.src = url;
          document.body.append(script);
        })), Promise.resolve());
      </script><script src="${url}" onload="begin()"></script></body>`);
      this.inside.document.close();
    }
    postMessage(data) {
      this.loaded.then(() => this.inside.dispatchEvent(new MessageEvent("message", { data })));
    }
  };
}
