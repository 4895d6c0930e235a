"""Transformers' models read from a folder. Importing this module takes seconds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModel, AutoModelForMaskedLM, PreTrainedModel
from transformers.activations import ACT2FN

from mexma_cli.encoder.loading import pq
from mexma_cli.encoder.loading.folder import BESIDE_NGRAMS
from mexma_cli.encoder.loading.settings import ONLY_OURS, FolderSettings, read_json_object
from mexma_cli.encoder.model.families import FAMILIES
from mexma_cli.encoder.model.hugging_face import LoadingReport, build_model
from mexma_cli.encoder.model.transformer import StoredModel
from mexma_cli.encoder.quiet import quieten_transformers
from mexma_cli.errors import MexmaError

quieten_transformers()


def read_model(settings: FolderSettings, with_pooler: bool) -> tuple[PreTrainedModel, LoadingReport]:
    """The folder's model as it is stored.

    Raises:
        MexmaError: An activation that transformers does not know.
    """
    activation = settings.config.get("hidden_act")
    if isinstance(activation, str) and activation not in ACT2FN and not settings.own_code:
        path = settings.transformer / "config.json"
        raise MexmaError(f"{path}: hidden_act {activation!r} is not supported")
    if (settings.transformer / pq.FILE).is_file():
        small = StoredModel(settings.config, pq.load(settings.transformer / pq.FILE))
        return build_model(settings.config, small.tensors(), with_pooler)
    # A class of the folder's own may not know the argument.
    has_pooler = not settings.own_code and FAMILIES[settings.config["model_type"]].is_bert
    arguments: dict[str, Any] = {"add_pooling_layer": with_pooler} if has_pooler else {}
    arguments |= _config(settings.transformer)
    kind: Any = AutoModel
    if not settings.own_code and FAMILIES[settings.config["model_type"]].takes_language:
        from transformers.models.m2m_100.modeling_m2m_100 import M2M100Encoder

        kind = M2M100Encoder
    model, report = kind.from_pretrained(
        settings.transformer,
        dtype="auto",
        ignore_mismatched_sizes=True,  # reported by name instead
        output_loading_info=True,
        weights_only=True,
        trust_remote_code=settings.own_code,
        **arguments,
    )
    return model, report


def read_masked_lm(folder: Path) -> tuple[PreTrainedModel, LoadingReport]:
    """A masked-LM checkpoint, float32."""
    model, report = AutoModelForMaskedLM.from_pretrained(
        folder, dtype=torch.float32, output_loading_info=True, weights_only=True, **_config(folder)
    )
    return model, report


def _config(folder: Path) -> dict[str, Any]:
    """The argument for a folder that transformers would refuse (`ONLY_OURS`): its config with its weights."""
    (key,) = ONLY_OURS
    if key not in (read_json_object(folder / "config.json") or {}):
        return {}
    config = AutoConfig.from_pretrained(folder)
    setattr(config, key, BESIDE_NGRAMS)
    return {"config": config}
