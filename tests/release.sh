#!/usr/bin/env bash
# Builds wheel and source distribution, looks at what is in them, and tries the wheel as its users would: on
# every Python of PYTHONS, or all from 3.11 to 3.14 that are here, as another user where this one is root,
# without HOME, with read-only site-packages, in an empty folder. `make release-check` runs it.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
chmod 755 "$work"
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1 PYTHONDONTWRITEBYTECODE=1
unset PYTHONPATH

echo "== build"
python3 -m venv "$work/tools"
"$work/tools/bin/pip" install -q build twine
"$work/tools/bin/python" -m build -q --outdir "$work/dist" "$root"
"$work/tools/bin/twine" check --strict "$work"/dist/*
wheel=$(ls "$work"/dist/*.whl)

echo "== contents"
"$work/tools/bin/python" - "$wheel" "$work"/dist/*.tar.gz <<'PY'
import sys, tarfile, zipfile
names = {sys.argv[1]: zipfile.ZipFile(sys.argv[1]).namelist(), sys.argv[2]: tarfile.open(sys.argv[2]).getnames()}
for path, all_ in names.items():
    wrong = [n for n in all_ if "__pycache__" in n or n.endswith((".pyc", ".nbi", ".nbc", ".whl")) or "tests/" in n]
    wanted = ["recipes/one-language.yaml", "examples/spa-eng/gold.tsv", "LICENSES.md", "model.pq.safetensors", "mexma_cli/py.typed"]
    lacking = [end for end in wanted if not any(name.endswith(end) for name in all_)]
    print(f"{path.rpartition('/')[2]}: {len(all_)} files")
    if wrong or lacking:
        sys.exit(f"not meant: {wrong}; lacking: {lacking}")
PY

tried=0
other=(env)
[ "$(id -u)" != 0 ] || other=(setpriv --reuid 65534 --regid 65534 --clear-groups env)
for version in ${PYTHONS:-3.11 3.12 3.13 3.14}; do
  python=
  for found in $(command -v "python$version") "$HOME"/.pyenv/versions/"$version".*/bin/python; do
    if "$found" --version > /dev/null 2>&1; then python=$found; break; fi  # pyenv has stand-ins that do not run
  done
  [ -n "$python" ] || { echo "== Python $version: not here"; continue; }
  echo "== $("$python" --version)"
  place=$work/$version
  base=$("$python" -c 'import sys; print(sys.base_prefix)')
  if ! "${other[@]}" test -x "$base/bin/python3"; then
    # The other user may not look into this one's home: a copy of the whole Python, with its own libraries.
    cp -a "$base" "$work/python-$version"
    rm -rf "$work/python-$version"/lib/python*/{test,site-packages/*}
    base=$work/python-$version
    export LD_LIBRARY_PATH=$base/lib
  fi
  "$base/bin/python$version" -m venv "$place"
  "$place/bin/pip" install -q "${TORCH:-torch==2.13.0+cpu}" "$wheel" 2>/dev/null ||
    "$place/bin/pip" install -q torch==2.13.0 "$wheel"
  chmod -R a-w "$place"
  as=("${other[@]}" -u HOME -u XDG_CACHE_HOME -u NUMBA_CACHE_DIR PATH="$place/bin:/usr/bin:/bin")
  empty=$work/empty-$version
  mkdir "$empty" && chmod 777 "$empty"
  cd "$empty"
  "${as[@]}" mexma --version
  "${as[@]}" mexma demo > demo.out 2> demo.err || { cat demo.out demo.err; exit 1; }
  grep '^F1 ' demo.out
  "${as[@]}" mexma recipes one-language | grep -q '^name:'
  "${as[@]}" mexma info mini | tail -1
  for command in $("${as[@]}" mexma --help | sed -n '/^Everything at once:/,/^  Examples:/s/^  \([a-z-]*\)  .*/\1/p'); do
    "${as[@]}" mexma "$command" --help > /dev/null
  done
  cd "$root"
  unset LD_LIBRARY_PATH
  chmod -R u+w "$place" && rm -rf "$place" "$work/python-$version"
  tried=$((tried + 1))
done
[ "$tried" -gt 0 ] || { echo "error: no Python from 3.11 to 3.14 found" >&2; exit 1; }
echo "== the release is as it should be, on $tried Pythons"
