"""Weights stored with int8 word embeddings, a step for each row; all others as float16.

Three quarters of a small encoder are word embeddings, and these are a quarter of what float32 takes.
Computing is another matter: what is read is float32.
"""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from transformers import MODEL_MAPPING, AutoConfig, PreTrainedModel

from mexma_cli.encoder.modules import damaged

FILE = "model.int8.safetensors"
"""Not model.safetensors, which other programs would misread."""
STEPS = ".steps"
LARGEST = 127


def save(model: PreTrainedModel, folder: Path) -> None:
    """Write config.json and the weights."""
    words = model.get_input_embeddings().weight
    stored = {}
    for name, weight in model.state_dict().items():
        if weight.data_ptr() == words.data_ptr():
            stored[name], stored[name + STEPS] = quantise(weight)
        else:
            stored[name] = weight.half().contiguous()
    model.config.save_pretrained(folder)
    save_file(stored, folder / FILE)


def load(folder: Path, with_pooler: bool) -> tuple[PreTrainedModel, dict[str, set[str]]]:
    """The model in float32, and which weights it lacks, as transformers reports them.

    Raises:
        MexmaError: The file is damaged.
        ValueError, KeyError: config.json is none, or of an unknown kind.
    """
    config = AutoConfig.from_pretrained(folder)
    model, report = MODEL_MAPPING[type(config)].from_pretrained(
        None,
        config=config,
        state_dict=_weights(folder / FILE),
        dtype=torch.float32,
        ignore_mismatched_sizes=True,
        output_loading_info=True,
        add_pooling_layer=with_pooler,
    )
    return model, report


def _weights(path: Path) -> dict[str, torch.Tensor]:
    try:
        stored = load_file(path)
    except (SafetensorError, OSError) as error:
        raise damaged(path, error) from None
    steps = {name.removesuffix(STEPS): stored.pop(name) for name in list(stored) if name.endswith(STEPS)}
    return {
        name: weight.float() * steps[name][:, None] if name in steps else weight.float()
        for name, weight in stored.items()
    }


def quantise(weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """int8 [rows, dim] and float32 steps [rows]: their product is within half a step of the weight."""
    steps = weight.float().abs().amax(dim=1) / LARGEST
    whole = (weight.float() / steps.clamp_min(torch.finfo(torch.float32).tiny)[:, None]).round()
    return whole.to(torch.int8), steps
