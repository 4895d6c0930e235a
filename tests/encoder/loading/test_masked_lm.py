"""A masked-LM checkpoint's head has transformers' logits; a checkpoint without a head gets one."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForMaskedLM

from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.encoder.loading.masked_lm import VocabularyHead, load_masked_lm
from mexma_cli.errors import MexmaError


@pytest.mark.parametrize("family", ["xlm-roberta", "bert", "bert-relu"])
def test_the_heads_logits_are_the_checkpoints(
    family: str, masked_lms: dict[str, Path], tmp_path: Path
) -> None:
    folder = masked_lms[family.removesuffix("-relu")]
    if family == "bert-relu":  # BERT's head has the configuration's activation
        shutil.copytree(folder, tmp_path / "relu")
        folder = tmp_path / "relu"
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps(config | {"hidden_act": "relu"}))
    theirs = AutoModelForMaskedLM.from_pretrained(folder).eval()
    base, head = load_masked_lm(str(folder))
    ids = torch.arange(5, 25)[None]
    with torch.no_grad():
        hidden = base.eval()(ids).last_hidden_state[0]
        ours = head(hidden) @ base.get_input_embeddings().weight.T + head.bias
        torch.testing.assert_close(ours, theirs(ids).logits[0])
    assert head.bias.abs().max() > 0.1


def test_half_precision_checkpoints_become_float32(masked_lms: dict[str, Path], tmp_path: Path) -> None:
    model = AutoModelForMaskedLM.from_pretrained(masked_lms["bert"], dtype=torch.float16)
    model.save_pretrained(tmp_path / "half")
    base, head = load_masked_lm(str(tmp_path / "half"))
    assert {p.dtype for p in [*base.parameters(), *head.parameters()]} == {torch.float32}


def test_an_encoders_folder_has_no_head(
    masked_lms: dict[str, Path], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The transformer is taken all the same; modules.json may be there."""
    encoder = SentenceEncoder.load(str(masked_lms["xlm-roberta"]), "cpu")
    encoder.save(tmp_path / "saved")
    caplog.clear()
    base, head = load_masked_lm(str(tmp_path / "saved"))
    assert caplog.messages == [
        f"{tmp_path / 'saved'} has no masked-LM head: an untrained one takes its place"
    ]
    for name, value in encoder.model.state_dict().items():
        assert torch.equal(base.state_dict()[name], value)
    assert isinstance(head, VocabularyHead) and not head.bias.detach().any()


def test_a_damaged_checkpoint(masked_lms: dict[str, Path], tmp_path: Path) -> None:
    shutil.copytree(masked_lms["bert"], tmp_path / "damaged")
    (tmp_path / "damaged" / "model.safetensors").write_bytes(b"x")
    with pytest.raises(MexmaError, match=r"damaged/model\.safetensors cannot be read"):
        load_masked_lm(str(tmp_path / "damaged"))
