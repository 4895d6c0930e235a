"""Tokenisers of the tokenizers library; transformers' object around one is made only on demand."""

from __future__ import annotations

import json
import re
from array import array
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cached_property
from itertools import chain, islice
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any
from unicodedata import normalize

import numpy as np
from tokenizers import Tokenizer
from tokenizers.normalizers import Lowercase, Sequence
from tokenizers.processors import TemplateProcessing

from mexma_cli.encoder.loading.settings import read_json_object
from mexma_cli.encoder.loading.weights import damage_as_message
from mexma_cli.encoder.model.families import FAMILIES
from mexma_cli.encoder.model.transformer import quieten_transformers
from mexma_cli.errors import MexmaError, installed_by

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

_SPECIAL = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
_SETTINGS = {*_SPECIAL, "added_tokens_decoder", "backend", "is_local", "local_files_only", "model_max_length"}
_SETTINGS |= {"tokenizer_class"}
"""With no other key than these in tokenizer_config.json, transformers takes tokenizer.json as it is."""
_MORE_TOKENS = ("added_tokens.json", "special_tokens_map.json")  # which transformers adds to tokenizer.json
START, PADDING, END, UNKNOWN = range(4)
"""Ids of <s>, <pad>, </s> and <unk> in fairseq and in transformers' NLLB."""
LONGEST = 1 << 20
"""The length limit of an encoder that has none."""
_MARKS = "[\u0300-\u036f\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0640\u064b-\u065f\u0670]"
_VIETNAMESE = "(?:[\u0309\u0323\u031b]|[aeo][\u0302\u0306][\u0300\u0301\u0303])"
ACCENTS = f"{_MARKS}(?!.*{_VIETNAMESE})"
"""Marks that a reader does without, of decomposed text: accents, Hebrew points, Arabic vowel signs, hamzas on
other letters, and the stroke that lengthens Arabic words. In Vietnamese they tell most words apart: all marks
stay that a mark of Vietnamese alone follows in the same line."""
INVISIBLE = "[\u00ad\u200b\u2060\ufeff]"
"""Characters without meaning."""
SPACES = r"\s+"
_FORMS = {"NFC", "NFD", "NFKC", "NFKD", "Lowercase"}
_SPLITS = {"Punctuation", "Split", "Digits"}
_WORDS = 1 << 17  # whose tokens are remembered
_LONGEST = 32  # characters of a word that is remembered
_TOGETHER = 1 << 10  # words that are normalised together
_MARKS_APART = ",.;:!?\"'()-"  # no form of Unicode joins them with what stands beside them
_TURN = Lock()  # of threads, with the words that are remembered
_BORDER = "\ue000"  # stands between them, in a line of its own; Unicode gives it no meaning


def check_strings(texts: Iterable[object]) -> None:
    """Refuse texts that no tokeniser takes: what is no string, and the surrogates that Python makes of bytes
    that are not UTF-8."""
    for text in texts:
        if not isinstance(text, str):
            raise MexmaError(f"{text!r} is no sentence: a sentence is a string")
        if re.search("[\ud800-\udfff]", text):
            raise MexmaError(f"{text!r} is not UTF-8", "is the terminal in another encoding?")


@contextmanager
def panic_as_message() -> Iterator[None]:
    """Turn what tokenizers raises where a regular expression of a tokeniser gives up into a message. It is no
    Exception, and its class cannot be imported."""
    try:
        yield
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise MexmaError(
            f"the tokeniser gave up on a sentence: {error}",
            "a regular expression in its tokenizer.json takes too long, or is not for such text",
        ) from None


class LazyTokenizer:
    """A tokeniser of the tokenizers library, and transformers' object around it if that is asked for.

    Args:
        backend: The tokenizers library's object.
        load: Makes transformers' object.
        padding: Id of the padding token; None if there is none.
        max_tokens: Length limit.
        keeps_end: Whether a longer sentence keeps its end, not its beginning (`truncation_side: left`).

    Attributes:
        pads_left: Whether other programs put padding before a sentence.
        masks: Whether they tell the model where padding is.
    """

    pads_left = False
    masks = True

    def __init__(
        self,
        backend: Tokenizer,
        load: Callable[[], PreTrainedTokenizerFast],
        padding: int | None,
        max_tokens: int,
        keeps_end: bool = False,
    ) -> None:
        self.backend = backend
        self._load = load
        self.padding = padding
        self.max_tokens = max_tokens
        self.keeps_end = keeps_end
        self._words: dict[str, bytes] = {}
        self._words_of: tuple[Any, ...] = ()
        self._apart = False
        self._marks = ""

    @classmethod
    def of(cls, tokenizer: PreTrainedTokenizerFast) -> LazyTokenizer:
        """Around transformers' object."""
        backend, padding = tokenizer.backend_tokenizer, tokenizer.pad_token_id
        keeps_end = tokenizer.truncation_side == "left"
        made = cls(backend, lambda: tokenizer, padding, tokenizer.model_max_length, keeps_end)
        made.pads_left = tokenizer.padding_side == "left"
        made.masks = "attention_mask" in tokenizer.model_input_names
        return made

    @classmethod
    @panic_as_message()
    def plain(cls, folder: Path, load: Callable[[], PreTrainedTokenizerFast]) -> LazyTokenizer | None:
        """From a folder; None if transformers would change tokenizer.json, as for some decoders whatever the
        class that they name, or cannot read it."""
        try:
            kind = (read_json_object(folder / "config.json") or {}).get("model_type")
            if kind is not None and not FAMILIES[kind].is_bert:
                return None
            if any((folder / name).is_file() for name in _MORE_TOKENS):
                return None
            config = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))
            if not set(config) <= _SETTINGS or config["tokenizer_class"] != "TokenizersBackend":
                return None
            backend = Tokenizer.from_file(str(folder / "tokenizer.json"))
            added = backend.get_added_tokens_decoder()
            known = {token.content: id for id, token in added.items() if token.special}
            named = {config[name] for name in _SPECIAL if name in config}
            if backend.post_processor is None or backend.truncation or backend.padding or named - set(known):
                return None
            return cls(backend, load, known.get(config.get("pad_token")), int(config["model_max_length"]))
        except Exception:  # tokenizers raises plain Exception
            return None

    @classmethod
    def read(cls, folder: Path, load: Callable[[], PreTrainedTokenizerFast]) -> LazyTokenizer:
        """From a folder: `plain` if possible, else through transformers."""
        return cls.plain(folder, load) or cls.of(load())

    def limit(self, name: str, stated: int | None) -> int:
        """The length limit of the encoder `name`: the one that it states, or its tokeniser's; one that has no
        room for a sentence is refused."""
        limit = stated or self.max_tokens
        if not isinstance(limit, int | float) or limit < 2:
            raise MexmaError(f"{name!r}: model_max_length in tokenizer_config.json is {limit!r}")
        return int(limit)

    @property
    def unlimited(self) -> Tokenizer:
        """The backend without truncation and padding, which its file or transformers' object may ask for."""
        self.backend.no_truncation()
        self.backend.no_padding()
        return self.backend

    def hash_into(self, digest: Any) -> None:
        """Put all that the ids depend on into a hash."""
        digest.update(self.unlimited.to_str().encode())

    @panic_as_message()
    def encode(self, texts: list[str]) -> list[np.ndarray]:
        """Token ids with <s> and </s>, int64, of texts of any length."""
        backend = self.unlimited
        with _TURN:
            if self._takes_words(backend):
                return self._by_words(backend, texts)
        return [np.asarray(encoding.ids, np.int64) for encoding in backend.encode_batch_fast(texts)]

    def _by_words(self, backend: Tokenizer, texts: list[str]) -> list[np.ndarray]:
        known = self._words
        special = [re.escape(token.content) for token in backend.get_added_tokens_decoder().values()]
        added = re.compile("|".join(special))
        lines = [[text] if added.search(text) else self._split(text) for text in texts]
        if ahead := _looking_ahead(set(chain.from_iterable(lines)).difference(known)):  # no known one is
            both = zip(texts, lines, strict=True)
            lines = [line if ahead.isdisjoint(line) else [text] for text, line in both]
        words = dict.fromkeys(chain.from_iterable(lines))
        new = [word for word in words if word not in known]
        tokens = {word: known.pop(word, b"") for word in words}
        apart = _ids(backend, [word for word in new if added.search(word) or _BORDER in word])
        tokens.update(apart)
        tokens.update(_of_words(backend, [word for word in new if word not in apart]))
        kept = (one for one in tokens.items() if len(one[0]) <= _LONGEST and one[0] not in ahead)
        known.update(kept)  # behind those used before
        for word in list(islice(known, max(0, len(known) - _WORDS))):
            del known[word]
        ends = np.array(backend.encode("").ids, np.int32)
        first, last = ends[: self.special[0]].tobytes(), ends[self.special[0] :].tobytes()
        joined = (b"".join([first, *map(tokens.__getitem__, line), last]) for line in lines)
        return [np.frombuffer(ids, np.int32).astype(np.int64) for ids in joined]

    def _takes_words(self, backend: Tokenizer) -> bool:
        """Whether the tokens of a text are those of its words, one after the other (`_by_word`)."""
        rules = backend.normalizer, backend.pre_tokenizer
        if None in rules or not isinstance(backend.post_processor, TemplateProcessing):
            return False
        parts = [rule.__getstate__() for rule in rules]
        state = *parts, backend.get_vocab_size()
        if state != self._words_of:
            added = backend.get_added_tokens_decoder().values()
            apart = _by_word(*map(json.loads, parts)) and not any(token.normalized for token in added)
            self._words, self._words_of, self._apart = {}, state, apart
            self._marks = _MARKS_APART if apart and _puts_apart(*map(json.loads, parts)) else ""
        return self._apart

    def _split(self, text: str) -> list[str]:
        """The words of a text, its punctuation apart: fewer different ones."""
        for mark in self._marks:
            text = text.replace(mark, f" {mark} ")
        return text.split(" ")

    @cached_property
    def special(self) -> tuple[int, int]:
        """How many special tokens it puts before and behind a sentence."""
        backend = self.unlimited
        # Of these texts one has tokens, whatever the letters. Listing the vocabulary is slow.
        texts = (text for listed in (lambda: ["a"], backend.get_vocab) for text in listed())
        masks = (backend.encode(text).special_tokens_mask for text in texts)
        before = next((mask.index(0) for mask in masks if 0 in mask), 0)
        return before, len(backend.encode("").ids) - before

    def cut(self, ids: np.ndarray, length: int) -> np.ndarray:
        """Token ids with the end cut off, or the beginning (`keeps_end`), so that <s> and </s> stay."""
        before, behind = self.special
        if self.keeps_end:
            return np.append(ids[:before], ids[before - length :])
        return np.append(ids[: length - behind], ids[len(ids) - behind :])

    def begin_with(self, language: str) -> bool:
        """Put the token of a language before every text that comes next; False if there is no such token."""
        added = self.backend.get_added_tokens_decoder().values()
        if language not in {token.content for token in added}:  # `und` may be a piece of words
            return False
        self.full.src_lang = language
        return True

    @cached_property
    def full(self) -> PreTrainedTokenizerFast:
        """Transformers' tokeniser, for training and for other programs' files."""
        return self._load()


def _of_words(backend: Tokenizer, words: list[str]) -> dict[str, bytes]:
    """`_ids` of words where `_by_word` holds, normalised together: a step takes longer to begin than for one,
    and changes no line for what is in another one."""
    normal: list[str] = []
    for at in range(0, len(words), _TOGETHER):
        lines = f"\n{_BORDER}\n".join(words[at : at + _TOGETHER])
        normal += backend.normalizer.normalize_str(f"\n{lines}\n").split(_BORDER)
    splitter = Tokenizer(backend.model)
    splitter.pre_tokenizer = backend.pre_tokenizer
    found = _ids(splitter, list(dict.fromkeys(normal)))
    return {word: found[part] for word, part in zip(words, normal, strict=True)}


def _ids(backend: Tokenizer, texts: list[str]) -> dict[str, bytes]:
    """Token ids of texts, int32, without special tokens."""
    found = backend.encode_batch_fast(texts, add_special_tokens=False)
    return {text: array("i", one.ids).tobytes() for text, one in zip(texts, found, strict=True)}


def _by_word(normalizer: dict[str, Any], splitter: dict[str, Any]) -> bool:
    """Whether words between spaces are normalised and cut into tokens each by itself, if none is
    `_looking_ahead`: all steps of both, as tokenizer.json has them, are known for it."""
    steps, splits = normalizer.get("normalizers", [normalizer]), splitter.get("pretokenizers", [splitter])
    if _BORDER in json.dumps(steps, ensure_ascii=False):
        return False
    for step in steps:
        pattern = step.get("pattern", {})
        alone = pattern.get("Regex") in (ACCENTS, INVISIBLE)
        alone = alone or re.search(r"\s", pattern.get("String", " ")) is None
        alone = alone or (pattern.get("Regex"), step.get("content")) == (SPACES, " ")
        if not (alone if step["type"] == "Replace" else step["type"] in _FORMS):
            return False
    if splits[:1] != [{"type": "WhitespaceSplit"}]:
        return False
    return all(part["type"] in _SPLITS or part.get("prepend_scheme") == "always" for part in splits[1:])


def _puts_apart(normalizer: dict[str, Any], splitter: dict[str, Any]) -> bool:
    """Whether `_MARKS_APART` are words by themselves in any text, where `_by_word` holds."""
    steps, splits = normalizer.get("normalizers", [normalizer]), splitter.get("pretokenizers", [splitter])
    first = splits[1] if len(splits) > 1 else {}
    changed = "".join(step.get("pattern", {}).get("String", "") for step in steps)
    alone = first.get("type") == "Punctuation" and first.get("behavior") == "Isolated"
    return alone and not set(changed) & set(_MARKS_APART)


def _looking_ahead(words: Iterable[str]) -> set[str]:
    """The words on which it depends what `ACCENTS` takes from those before them in a text."""
    words = [word for word in words if not word.isascii()]
    if not _has_vietnamese("\n".join(words)):  # most texts have none
        return set()
    return set(filter(_has_vietnamese, words))


def _has_vietnamese(text: str) -> bool:
    return re.search(_VIETNAMESE, normalize("NFD", normalize("NFKC", text).lower())) is not None


def put_in_lower_case(backend: Tokenizer) -> None:
    """Lower-case text before all other steps, as sentence-transformers does for `do_lower_case`.

    A tokeniser that already lower-cases text is left as it is.
    """
    steps = _steps(backend)
    done = any(isinstance(step, Lowercase) for step in steps)
    backend.normalizer = Sequence(steps if done else [Lowercase(), *steps])


def puts_in_lower_case(backend: Tokenizer) -> bool:
    """Whether lower-casing is the first step.

    A folder has to say this outside tokenizer.json, since transformers drops that step when it reads BERT's
    and RoBERTa's tokenisers.
    """
    return any(isinstance(step, Lowercase) for step in _steps(backend)[:1])


def _steps(backend: Tokenizer) -> list[Any]:
    """The steps of its normaliser."""
    normalizer = backend.normalizer
    if isinstance(normalizer, Sequence):
        return [normalizer[i] for i in range(len(normalizer))]
    return [normalizer] if normalizer else []


@panic_as_message()
def with_transformers(folder: str | Path, own_code: bool = False) -> PreTrainedTokenizerFast:
    """A folder's tokeniser as transformers reads it; with `own_code`, the folder's own Python code may be
    run."""
    from transformers import CONFIG_MAPPING, AutoTokenizer

    from mexma_cli.encoder.model.hugging_face import config_of

    quieten_transformers()
    if not Path(folder).is_dir():
        raise FileNotFoundError("no such folder")  # transformers would ask the hub for it
    content = {} if own_code else read_json_object(Path(folder) / "config.json") or {}
    config = config_of(content, str(folder)) if content.get("model_type") in list(CONFIG_MAPPING) else None
    return AutoTokenizer.from_pretrained(folder, config=config, trust_remote_code=own_code)


class PieceTokenizer(LazyTokenizer):
    """A first token by its id, if there is one, the pieces of a text by SentencePiece's model, and </s>;
    messages say whose it is."""

    def __init__(self, owner: str, spm: Path, first: int | None, max_tokens: int) -> None:
        try:
            from sentencepiece import SentencePieceProcessor
        except ImportError:
            hint = installed_by("laser")
            raise MexmaError(f"{owner} needs the library sentencepiece", hint) from None
        with damage_as_message(spm):
            self.pieces = SentencePieceProcessor(model_file=str(spm))
        self.owner, self.first, self._model = owner, first, spm.read_bytes()
        self.padding: int | None = PADDING
        self.max_tokens, self.keeps_end = max_tokens, False

    def hash_into(self, digest: Any) -> None:
        """Put everything that decides the ids into a hash; see `LazyTokenizer.hash_into`."""
        digest.update(self._model)
        digest.update(repr(self.first).encode())

    def encode(self, texts: list[str]) -> list[np.ndarray]:
        """Token ids with the first token and </s>, int64, of texts of any length."""
        check_strings(texts)
        first = [] if self.first is None else [self.first]
        return [np.array([*first, *ids, END], np.int64) for ids in self.ids(texts)]

    def ids(self, texts: list[str]) -> list[list[int]]:
        """Ids of each text's pieces."""
        raise NotImplementedError

    @property
    def full(self) -> Any:
        """Transformers' tokeniser, of which there is none: refused."""
        raise MexmaError(f"{self.owner} has no tokeniser of transformers", "it embeds text, and no more")
