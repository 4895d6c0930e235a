"""The settings in an encoder's folder: config.json, and sentence-transformers' files.

The layout is Hugging Face's with sentence-transformers' `modules.json`, so that both load it.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mexma_cli.encoder.model.families import FAMILIES, POOLING_KEYS, STATIC, Pooling
from mexma_cli.errors import MexmaError

SUPPORTED = ("Transformer", "Pooling", "Dense", "Normalize", "StaticEmbedding")
_BEHIND = {"Dense", "Normalize"}
OWN_TRANSFORMER = "mexma_cli.encoder.sentence_transformer.Transformer"
"""The type of the first module, in modules.json, of a model that `sentence_transformer` made."""
ONLY_OURS = {
    "transformers_weights": "these need mexma: mexma_cli.SentenceEncoder.load(FOLDER), or "
    "sentence_transformers.SentenceTransformer(FOLDER, trust_remote_code=True)"
}
"""In config.json of a folder with n-grams or `pq` weights. Transformers takes it for the name of a file of
weights, and refuses it with a message that quotes it."""
LIMIT_FILES = ("bert", "roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet")
"""Kinds of sentence_KIND_config.json. The first is today's; older versions wrote the others."""
_HARMLESS = {"trust_remote_code", "add_pooling_layer", "torch_dtype", "dtype", "attn_implementation"}
_NO_LIMIT = 1 << 40
"""A tokeniser that states a larger limit states none."""
_FETCHING = {"attn_implementation", "_attn_implementation", "_attn_implementation_internal"}
_FETCHING |= {"experts_implementation", "quantization_config", "fusion_config"}
"""Keys of config.json for which transformers fetches code from another page of the hub, as for `auto_map`."""
_IN_TORCH = (None, "eager", "sdpa", "batched_mm", "grouped_mm")
"""Values of these keys for which it does not."""
ELSEWHERE = re.compile(r'"([\w.-]+/[\w.-]+)--([\w.]+)"')
"""A class on another page of the hub, in `auto_map` or modules.json: the page, and its file and name."""
# Subpackages of sentence-transformers whose modules are not for sentence encoders.
_OTHER_KINDS = ("sparse_encoder", "cross_encoder", "multi_vector_encoder")


_BY_LONGEST = {"dynamic", "longrope"}
"""Rotations of positions that are others for all sentences of a batch if one is long."""


class NotCovered(MexmaError):
    """An encoder that mexma does not compute itself, though sentence-transformers may."""


@dataclass(frozen=True)
class FolderSettings:
    """The settings in an encoder's folder, beside the weights.

    Attributes:
        config: config.json.
        transformer: The folder of the weights and of config.json.
        pooling: How hidden states become one vector.
        modules: (kind, folder, config) of each Dense and Normalize, in order.
        max_tokens: Length limit; None if the folder states none.
        prefix: The default prompt, put before every sentence.
        lower_case: Whether text is lower-cased first.
        own_code: Whether config.json names Python code in the folder (`auto_map`).
        prompts: All prompts by their names, from which users of sentence-transformers choose.
        dim: How many numbers of a vector are kept (`truncate_dim`); None: all.
        unread: Files of Python code of the folder's own, which is not run: transformers has the family.
    """

    config: dict[str, Any]
    transformer: Path
    pooling: Pooling = "cls"
    modules: tuple[tuple[str, Path, dict[str, Any]], ...] = ()
    max_tokens: int | None = None
    prefix: str = ""
    lower_case: bool = False
    own_code: bool = False
    prompts: dict[str, str] = field(default_factory=dict)
    dim: int | None = None
    unread: str = ""


def read_settings(folder: str | Path, trust_remote_code: bool = False) -> FolderSettings:
    """Read config.json and sentence-transformers' files. With `trust_remote_code`, the folder's own Python
    code may be run.

    A folder without modules.json has CLS pooling, no further modules, and no length limit of its own. A
    module, a setting or an architecture that is not supported is refused as `NotCovered`; and a folder that
    is damaged, or asks for what may not be done.
    """
    where = Path(folder)
    check_no_adapter(where)
    entries = read_json_if_there(where / "modules.json")
    if entries is None:
        config = _config(where)
        if config.get("model_type") == "model2vec":
            none: dict[str, Any] = {}
            norm = (("Normalize", where, none),) if config.get("normalize") else ()
            return FolderSettings({"model_type": STATIC}, where, "mean", norm)
        own_code = _own_code(where, config, trust_remote_code)
        unread = "" if own_code else code_files(config)
        with_language = not own_code and FAMILIES[config["model_type"]].takes_language
        usual: Pooling = "mean" if with_language else "cls"
        return FolderSettings(config, where, usual, own_code=own_code, unread=unread)
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise MexmaError(f"{where}: modules.json is not a list of modules")
    kinds = [(_kind(where, entry, trust_remote_code), entry) for entry in entries]
    order = [kind for kind, _ in kinds]
    first = 1 if order[:1] == ["StaticEmbedding"] else 2
    if order[:first] not in (["StaticEmbedding"], ["Transformer", "Pooling"]) or set(order[first:]) - _BEHIND:
        raise NotCovered(
            f"{where}: the modules {', '.join(order) or '(none)'} are not supported in this order",
            "supported: Transformer and Pooling, or StaticEmbedding, then any Dense and Normalize",
        )
    names = [str(entry["name"]) for _, entry in kinds if "name" in entry]
    if len(set(names)) < len(names):
        raise NotCovered(f"{where}: two modules of modules.json have the same name")
    paths = [where / str(entry.get("path", "")) for _, entry in kinds]
    prefix, prompts, dim = read_prompts(where)
    behind = tuple(
        (kind, path, _checked(path, kind)) for kind, path in list(zip(order, paths, strict=True))[first:]
    )
    if first == 1:
        static = {"model_type": STATIC}
        return FolderSettings(static, paths[0], "mean", behind, prefix=prefix, prompts=prompts, dim=dim)
    transformer, pooling = paths[:2]
    config = _config(transformer)
    stated = _transformer_settings(transformer)
    limit = stated.get("max_seq_length")
    if limit is not None and (not isinstance(limit, int) or isinstance(limit, bool) or limit < 2):
        raise MexmaError(f"{transformer}: max_seq_length in sentence_bert_config.json is {limit!r}")
    own_code = _own_code(where, config, trust_remote_code)
    return FolderSettings(
        config,
        transformer,
        _pooling(pooling),
        behind,
        limit,
        prefix,
        bool(stated.get("do_lower_case", False)),
        own_code,
        prompts,
        dim,
        "" if own_code else code_files(config),
    )


def check_no_adapter(where: Path) -> None:
    """Refuse a folder of an adapter, whose weights are on another page."""
    if (where / "adapter_config.json").is_file():
        raise MexmaError(
            f"{where} holds an adapter (adapter_config.json), which is not applied",
            "merge it into the weights first, with peft: merge_and_unload(), then save_pretrained()",
        )


def _config(where: Path) -> dict[str, Any]:
    config = read_json_object(where / "config.json")
    if not config:
        raise MexmaError(f"{where} is not an encoder's folder: it has no config.json, or an empty one")
    return {key: value for key, value in config.items() if (key, value) not in ONLY_OURS.items()}


def _own_code(where: Path, config: dict[str, Any], trusted: bool) -> bool:
    """Whether the folder's own code is run; if not, check that the architecture is supported."""
    family = config.get("model_type")
    if config.get("auto_map") and trusted:
        check_fetches_nothing(where)
        return True
    if config.get("auto_map") and family not in list(FAMILIES):
        raise unasked(where, code_files(config))
    if not isinstance(family, str) or family not in FAMILIES or family == STATIC:
        raise NotCovered(
            f"{where}: the model type {family!r} is not supported", f"supported: {', '.join(FAMILIES)}"
        )
    if FAMILIES[family].takes_language and config.get("architectures") != [FAMILIES[family].model]:
        raise MexmaError(
            f"{where}: config.json does not have {FAMILIES[family].model} for its architectures: "
            "a translation model's own encoder is none of sentences",
            "SONAR's text encoder in transformers' layout is one",
        )
    if config.get("quantization_config") is not None:
        raise MexmaError(f"{where}: config.json has a quantization_config, which is not supported")
    rope = {**_inner(config, "rope_scaling"), **_inner(config, "rope_parameters")}
    kinds = {rope.get("rope_type"), rope.get("type")} | {_inner(rope, key).get("rope_type") for key in rope}
    if odd := sorted(map(str, kinds & _BY_LONGEST)):
        raise NotCovered(f"{where}: config.json has rope_type {odd[0]!r}, which depends on the longest text")
    usual_values = {"is_decoder": False, "position_embedding_type": "absolute", "per_layer_config": None}
    for key, usual in usual_values.items():
        if config.get(key, usual) != usual:
            raise NotCovered(f"{where}: config.json has {key} {config[key]!r}; only {usual!r} is supported")
    for key in ("num_hidden_layers", "num_attention_heads"):
        if isinstance(config.get(key), int) and config[key] < 1:
            raise MexmaError(f"{where}: config.json has {key} {config[key]}; at least 1 is needed")
    if isinstance(eps := config.get("layer_norm_eps"), float) and not 0 <= eps < math.inf:
        raise MexmaError(f"{where}: config.json has layer_norm_eps {eps}, which is negative or not finite")
    padding = config.get("pad_token_id", 1) if FAMILIES[family].behind_padding else -1
    if padding is None:
        raise MexmaError(f"{where}: config.json has pad_token_id null, without which {family} does not work")
    return False


def code_files(config: dict[str, Any]) -> str:
    """The names of the files of Python code that config.json names."""
    names = set(re.findall(r"(\w+)\.\w+", json.dumps(config.get("auto_map") or {})))
    return ", ".join(f"{name}.py" for name in sorted(names))


def unasked(where: object, files: str, why: str = "") -> MexmaError:
    """The error for a folder that cannot be loaded unless its own code is run."""
    return MexmaError(
        f"{where} brings its own Python code ({files}), which is not run unasked{why}",
        "read that code, then give --trust-remote-code",
    )


def check_fetches_nothing(where: Path) -> None:
    """Refuse a folder of which libraries would take code from another page of the hub; the key is named."""
    for path in code_names(where):
        content = read_json_if_there(path)
        found = ["auto_map"] if ELSEWHERE.search(json.dumps(content)) else list(_fetching(content))
        if found:
            raise MexmaError(
                f"{path} takes code from another page of the hub (`{found[0]}`), whose revision nobody has "
                "pinned",
                "read that code, then give --code-revision COMMIT of the other page"
                if found == ["auto_map"]
                else "drop the key",
            )


def code_names(where: Path) -> list[Path]:
    """The files of a folder that may name code: configurations, and modules.json."""
    return sorted({*where.rglob("*config*.json"), *where.glob("modules.json")})


def _fetching(content: Any) -> Iterator[str]:
    """Keys at any depth for which transformers would fetch code."""
    if isinstance(content, dict):
        for key, value in content.items():
            if key in _FETCHING and (isinstance(value, dict | list) or value not in _IN_TORCH):
                yield key
            yield from _fetching(value)
    elif isinstance(content, list):
        for value in content:
            yield from _fetching(value)


def _inner(content: dict[str, Any], key: str) -> dict[str, Any]:
    """The object under a key; {} if there is none."""
    found = content.get(key)
    return found if isinstance(found, dict) else {}


def _kind(where: Path, entry: dict[str, Any], trusted: bool) -> str:
    if entry.get("type") == OWN_TRANSFORMER:
        return "Transformer"
    package, *between = str(entry.get("type", "")).split(".")
    kind = between.pop() if between else package
    if package != "sentence_transformers" and not trusted:
        raise MexmaError(
            f"{where}: the module {kind!r} ({entry.get('type')}) is Python code of its own, which is not run "
            "unasked",
            "read that code, then give --trust-remote-code",
        )
    if set(between) & set(_OTHER_KINDS):
        raise MexmaError(f"{where}: the module {kind!r} ({entry.get('type')}) is none of sentence encoders")
    if package != "sentence_transformers" or kind not in SUPPORTED:
        raise NotCovered(
            f"{where}: the module {kind!r} ({entry.get('type')}) is not supported",
            f"supported are sentence-transformers' {', '.join(SUPPORTED)}",
        )
    return kind


def _transformer_settings(where: Path) -> dict[str, Any]:
    """sentence_bert_config.json, or the file that older versions wrote; every setting in it is supported."""
    names = [where / f"sentence_{kind}_config.json" for kind in LIMIT_FILES]
    path = next((name for name in names if name.is_file()), names[0])
    settings = read_json_object(path) or {}
    usual = {"transformer_task": "feature-extraction", "module_output_name": "token_embeddings"}
    _check_usual(str(path), settings, usual)
    if settings.get("tokenizer_name_or_path"):
        raise MexmaError(f"{path}: the tokeniser is elsewhere (tokenizer_name_or_path)", "drop the key")
    modalities = _object_in(settings, "modality_config", path)
    if odd := sorted(set(modalities) - {"text"}):
        raise NotCovered(f"{path}: modality_config with {', '.join(odd)} is not supported")
    text = _object_in(modalities, "text", path)
    usual = {"method": "forward", "method_output_name": "last_hidden_state"}
    _check_usual(f"{path}, modality_config.text", text, usual)
    for key in ("model", "tokenizer", "config", "processor"):
        for name in (f"{key}_args", f"{key}_kwargs"):
            if odd := sorted(set(_object_in(settings, name, path)) - _HARMLESS):
                raise NotCovered(f"{path}: {name} with {', '.join(odd)} is not supported")
    if settings.get("processing_kwargs"):
        raise NotCovered(f"{path}: processing_kwargs is not supported")
    return settings


def _pooling(where: Path) -> Pooling:
    config = read_json_object(where / "config.json")
    if config is None:
        raise MexmaError(f"{where}: the pooling's config.json is not there")
    mode = config.get("pooling_mode")
    if mode is None:
        chosen = [
            key.removeprefix("pooling_mode_")
            for key, on in config.items()
            if key.startswith("pooling_mode_") and on
        ]
        mode = "+".join(chosen) or "mean"  # as sentence-transformers has it
    elif isinstance(mode, list):
        mode = "+".join(map(str, mode))
    _check_usual(str(where), config, {"include_prompt": True})
    for pooling, key in POOLING_KEYS.items():
        if mode in (pooling, key):
            return pooling
    raise NotCovered(f"{where}: pooling {mode!r} is not supported", f"supported: {', '.join(POOLING_KEYS)}")


def _checked(where: Path, kind: str) -> dict[str, Any]:
    """The config.json of a Dense or Normalize, checked to work on the sentence's vector without extras."""
    config = read_json_object(where / "config.json")
    if config is None and kind == "Dense":
        raise MexmaError(f"{where}: the Dense module's config.json is not there")
    config = config or {}
    names = dict.fromkeys(("module_input_name", "module_output_name"), "sentence_embedding")
    _check_usual(str(where), config, {**names, "use_residual": False})
    return config


def _check_usual(where: str, settings: dict[str, Any], usual: dict[str, Any]) -> None:
    """Refuse settings that are there and have another value than the usual one."""
    for key, expected in usual.items():
        if settings.get(key) not in (None, expected):
            raise NotCovered(f"{where}: {key} {settings[key]!r} is not supported, only {expected!r}")


def read_prompts(where: Path) -> tuple[str, dict[str, str], int | None]:
    """The default prompt, all by name, and `truncate_dim`, from config_sentence_transformers.json."""
    path = where / "config_sentence_transformers.json"
    settings = read_json_object(path) or {}
    kind = settings.get("model_type", "SentenceTransformer")
    if kind != "SentenceTransformer":
        raise MexmaError(f"{path}: a {kind} is not supported, only a SentenceTransformer")
    prompts = _object_in(settings, "prompts", path)
    name = settings.get("default_prompt_name")
    prompt = "" if name is None else prompts.get(str(name))
    if not isinstance(prompt, str):
        raise MexmaError(f"{path}: default_prompt_name is {name!r}, and prompts has none of that name")
    dim = settings.get("truncate_dim")
    if dim is not None and (not isinstance(dim, int) or dim < 1):
        raise MexmaError(f"{path}: truncate_dim is {dim!r}")
    return prompt, prompts, dim


def read_json_object(path: Path) -> dict[str, Any] | None:
    """The object in a JSON file; None if there is no file. Anything else is refused."""
    content = read_json_if_there(path)
    if content is not None and not isinstance(content, dict):
        raise MexmaError(f"{path}: not a JSON object")
    return content


def _object_in(settings: dict[str, Any], key: str, path: Path) -> dict[str, Any]:
    """The JSON object under a key; {} if there is none."""
    found = settings.get(key) or {}
    if not isinstance(found, dict):
        raise MexmaError(f"{path}: {key} is not a JSON object")
    return found


def read_json_if_there(path: Path) -> Any:
    """The content of a JSON file; None if there is no file. What is not valid JSON is refused."""
    if not path.is_file():
        return None
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise MexmaError(f"{path}: not valid JSON ({error})") from None


def write_settings(where: Path, max_tokens: int, lower_case: bool) -> None:
    """Write the length limit and lower-casing as sentence-transformers reads them.

    The transformer is stored without a pooler, and is made there without one.
    """
    stated = None if max_tokens > _NO_LIMIT else max_tokens
    limit: dict[str, Any] = {"max_seq_length": stated, "do_lower_case": lower_case}
    config = read_json_object(where / "config.json") or {}
    family = FAMILIES.get(str(config.get("model_type")))
    if "auto_map" not in config and (family is None or family.is_bert):  # own code may not know it
        limit["model_args"] = {"add_pooling_layer": False}
    write_json(where / "sentence_bert_config.json", limit)


def write_prompts(where: Path, settings: dict[str, Any]) -> None:
    """Write `prompt_settings`, if they are not the usual ones, as sentence-transformers reads them."""
    if settings["prompts"] or "truncate_dim" in settings:
        write_json(where / "config_sentence_transformers.json", settings)


def write_only_ours(where: Path) -> None:
    """Say in config.json that other libraries cannot honour what is in the folder: see `ONLY_OURS`."""
    path = where / "config.json"
    content = (read_json_object(path) or {}) | ONLY_OURS
    path.write_text(json.dumps(content, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def prompt_settings(prefix: str, prompts: Mapping[str, str], dim: int | None) -> dict[str, Any]:
    """Prompts and `truncate_dim` as arguments of sentence-transformers; `prefix` is the default prompt."""
    kept = {} if dim is None else {"truncate_dim": dim}
    if not prefix:
        return {"prompts": dict(prompts), "default_prompt_name": None, **kept}
    name = next((name for name, prompt in prompts.items() if prompt == prefix), "default")
    return {"prompts": {**prompts, name: prefix}, "default_prompt_name": name, **kept}


def write_json(path: Path, content: Any) -> None:
    """Write indented JSON."""
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def shorten_tokenizer(folder: Path) -> None:
    """Write a folder's tokenizer.json without spaces: it is a third smaller, and quicker to load.

    The added tokens are written into tokenizer_config.json, too. Without them, transformers would read all
    of tokenizer.json a second time to find them.
    """
    path, settings = folder / "tokenizer.json", folder / "tokenizer_config.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(content, ensure_ascii=False, separators=(",", ":")), encoding="utf-8")
    config = json.loads(settings.read_text(encoding="utf-8"))
    config["added_tokens_decoder"] = {str(token.pop("id")): token for token in content["added_tokens"]}
    settings.write_text(json.dumps(config, indent=2, sort_keys=True) + "\n", encoding="utf-8")
