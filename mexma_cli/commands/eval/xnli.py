"""Natural language inference, fine-tuned on English."""

from __future__ import annotations

from pathlib import Path

import click

from mexma_cli.commands.eval_options import Result, Session, evaluation
from mexma_cli.commands.options import options_of
from mexma_cli.commands.progress import progress
from mexma_cli.settings.stages import FineTuning
from mexma_cli.stages.embed.inputs import load_encoder

PAIRS = "for sentences; here pairs are read, as the paper does it."


@evaluation(
    "XNLI",
    "accuracy after fine-tuning on English, percent",
    "MultiNLI and XNLI",
    refuses=dict.fromkeys(("pooling", "max_tokens", "prompt", "task", "dim"), PAIRS),
)
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@options_of(FineTuning)
def command(session: Session, folder: Path, settings: FineTuning) -> Result:
    """Fine-tune on MultiNLI's English pairs, and test on XNLI's languages: accuracy in percent.

    As in Appendix C of the DAP paper: the encoder reads premise and hypothesis together (128 tokens at most),
    with a new pooler and classifier on the first token, and all weights are trained. Precision is float32
    on a processor and bfloat16 on a GPU, unless --dtype says otherwise. Without a GPU this takes days.
    --cache is not used.

    DIR, or a folder in it, has the train set (multinli.train.en.tsv, multinli_1.0_train.jsonl or .txt) and
    the test set (xnli.test.tsv or .jsonl), published at https://cims.nyu.edu/~sbowman/multinli and
    https://cims.nyu.edu/~sbowman/xnli.

    \b
    Example:
      mexma eval xnli XNLI --model facebook/MEXMA --device cuda -o xnli.json
    """
    from mexma_cli.evaluation.xnli import read_data

    data = read_data(folder)
    from mexma_cli.evaluation.xnli import evaluate

    encoder = load_encoder(session.choice.but(dtype="fp32"))
    precision = session.choice.precision
    if precision == "auto":
        precision = "bfloat16" if encoder.device.type == "cuda" else "float32"
    with progress(total=settings.epochs * len(data.train.classes), desc="fine-tuning", unit="pair") as bar:

        def on_step(pairs: int, loss: float) -> None:
            bar.update(pairs)
            bar.set_postfix(loss=f"{loss:.3f}")

        return evaluate(encoder, data, settings, precision, on_step)
