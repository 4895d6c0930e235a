"""Speed of families beside sentence-transformers: one thread, float32, random weights of a small shape.

    OMP_NUM_THREADS=1 python benchmarks/families.py [FAMILY ...] [--lines 300] [--rounds 2]

Both embed the same lines of examples/spa-eng, by turns, and the time is that of the processor; the fewest
seconds count. The largest difference of two numbers is printed, too.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
import transformers
from sentence_transformers import SentenceTransformer
from transformers import PreTrainedTokenizerFast

from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.encoder.loading.folder import BUNDLED

KINDS = {
    "xlm-roberta": "XLMRoberta",
    "roberta": "Roberta",
    "camembert": "Camembert",
    "bert": "Bert",
    "distilbert": "DistilBert",
    "modernbert": "ModernBert",
    "qwen2": "Qwen2",
    "qwen3": "Qwen3",
    "llama": "Llama",
    "mistral": "Mistral",
    "gemma": "Gemma",
    "gemma3_text": "Gemma3Text",
    "eurobert": "EuroBert",
    "albert": "Albert",
    "electra": "Electra",
    "ernie": "Ernie",
    "gte": "Gte",
    "jina_embeddings_v3": "JinaEmbeddingsV3",
    "nomic_bert": "NomicBert",
    "xlm-roberta-xl": "XLMRobertaXL",
}
SHAPE = {"hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 6, "intermediate_size": 1536}
SHAPE |= {"hidden_dim": 1536}  # DistilBERT's name for it
SHAPE |= {"head_dim": 64, "num_key_value_heads": 6, "max_position_embeddings": 514, "type_vocab_size": 1}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("families", nargs="*", default=list(KINDS), metavar="FAMILY")
    parser.add_argument("--lines", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=2)
    settings = parser.parse_args()
    transformers.utils.logging.disable_progress_bar()
    torch.set_num_threads(1)
    text = Path(__file__).parents[1] / "examples" / "spa-eng" / "spa.txt"
    lines = text.read_text("utf-8").splitlines()[: settings.lines]
    print(
        "| family | mexma, s | sentence-transformers, s | times as fast | difference |\n" + "| --- " * 5 + "|"
    )
    for family in settings.families:
        with tempfile.TemporaryDirectory(prefix="mexma-benchmark-") as name:
            make(Path(name), KINDS[family])
            ours, theirs = SentenceEncoder.load(name, "cpu"), SentenceTransformer(name, device="cpu")
            seconds: dict[str, list[float]] = {"ours": [], "theirs": []}
            for _ in range(settings.rounds):
                began = time.process_time()
                one = ours.embed(lines)
                seconds["ours"].append(time.process_time() - began)
                began = time.process_time()
                other = theirs.encode(lines, show_progress_bar=False)
                seconds["theirs"].append(time.process_time() - began)
            best = {who: min(taken) for who, taken in seconds.items()}
            apart = float(np.abs(one - other).max())
            ratio = best["theirs"] / best["ours"]
            print(f"| {family} | {best['ours']:.2f} | {best['theirs']:.2f} | {ratio:.2f} | {apart:.1e} |")


def make(folder: Path, kind: str) -> None:
    """A folder of sentence-transformers, with mini's tokeniser."""
    words = PreTrainedTokenizerFast.from_pretrained(BUNDLED / "mini")
    words.model_max_length = 512
    words.save_pretrained(folder)
    ids = {"bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2, "cls_token_id": 0, "sep_token_id": 2}
    torch.manual_seed(0)
    config = getattr(transformers, f"{kind}Config")(vocab_size=len(words), **SHAPE, **ids)
    getattr(transformers, f"{kind}Model")(config).save_pretrained(folder)
    entries = [("0", "", "Transformer"), ("1", "1_Pooling", "Pooling")]
    modules = [
        {"idx": int(name), "name": name, "path": path, "type": f"sentence_transformers.models.{module}"}
        for name, path, module in entries
    ]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 200}')
    (folder / "1_Pooling").mkdir()
    pooling = {"word_embedding_dimension": SHAPE["hidden_size"], "pooling_mode_mean_tokens": True}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling))


if __name__ == "__main__":
    main()
