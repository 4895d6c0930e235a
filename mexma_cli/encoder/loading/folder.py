"""Where an encoder's folder is, and how one is written as a whole, with checksums, and found to be whole."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from safetensors import SafetensorError

from mexma_cli import files
from mexma_cli.encoder.loading import hub
from mexma_cli.encoder.loading.settings import read_json_if_there, read_json_object
from mexma_cli.errors import MexmaError
from mexma_cli.formats.bitext import how_pairs_convert
from mexma_cli.store.arrays import check_content

log = logging.getLogger(__name__)

BUNDLED = Path(__file__).parents[2] / "models"
NGRAMS_FILE = "spelling.safetensors"
"""The table of subword n-gram embeddings (`ngrams`), if the encoder has one."""
WEIGHTS = "model.safetensors"
BESIDE_NGRAMS = "model.ngrams.safetensors"
"""The weights of an encoder with n-grams: no version of another library reads them by that name, which would
give other vectors."""
CHECKSUMS = "checksums.json"
"""In every folder that `written_aside` made: what all files had in them from which an encoder is loaded."""
CHECKPOINT_ENDING = ".pt"
"""The ending of LASER's and SONAR's files."""
FORMAT_VERSION = 1


class Checksums(files.Sealed):
    """The content of ``checksums.json``."""

    format_version: int = FORMAT_VERSION
    files: dict[str, str]
    """Name in the folder -> xxh3_128."""


def bundled_folder(name: str) -> Path | None:
    """The folder of the bundled encoder of that name, even if the user has a folder of that name."""
    if "/" in name or not (BUNDLED / name / "config.json").is_file():
        return None
    if Path(name).exists():
        log.info("`%s` is the bundled encoder; your own file or folder of that name is ./%s", name, name)
    return BUNDLED / name


def locate(name_or_path: str, trust_remote_code: bool = False) -> Path:
    """The local folder that a name stands for, whole (`check_whole`); a hub id is downloaded. Refused: what
    is neither a bundled name, nor a folder with an encoder, nor a hub id that can be fetched."""
    folder = _located(name_or_path, trust_remote_code)
    check_whole(folder)
    return folder


def _located(name_or_path: str, trust_remote_code: bool) -> Path:
    if (found := bundled_folder(name_or_path)) is not None:
        return found
    path = Path(name_or_path)
    if path.is_dir():
        # a training run holds its encoder in a folder of that name
        for folder in (path, path / "encoder"):
            if _has_encoder(folder):
                return folder
        if (path / "recipe.yaml").is_file() and (path / "log.jsonl").is_file():
            return _last_phase(path)
        raise MexmaError(f"{path} is not an encoder's folder: it has no config.json")
    if path.exists():
        raise MexmaError(f"{path} is a file, not an encoder's folder", how_pairs_convert(path))
    if hub.is_id(name_or_path):
        return hub.fetch(name_or_path, trust_remote_code)
    raise MexmaError(
        f"no encoder {name_or_path!r}",
        "`mini` (bundled), an encoder's folder, or a hub id such as facebook/MEXMA",
    )


def files_of_encoder(name_or_path: str) -> dict[str, Path]:
    """The files that decide an encoder's vectors, by their names in its folder: its ``checksums.json``, which
    is compared with the others when it is loaded; or else all. Of a hub id none, since it has a revision."""
    path = Path(name_or_path)
    if bundled_folder(name_or_path) is None and not path.exists():
        return {}
    if path.is_file():
        kinds = (path.name, "*.spm", "*.cvocab", "*.model")  # of LASER and SONAR
        return {file.name: file for kind in kinds for file in sorted(path.parent.glob(kind))}
    folder = _located(name_or_path, trust_remote_code=False)
    if (folder / CHECKSUMS).is_file():
        return {CHECKSUMS: folder / CHECKSUMS}
    names = sorted(file.relative_to(folder).as_posix() for file in folder.rglob("*") if file.is_file())
    return {name: folder / name for name in hub.wanted_files(names, python=True)}


def _has_encoder(folder: Path) -> bool:
    return any((folder / name).is_file() for name in ("config.json", "modules.json"))


def _last_phase(run: Path) -> Path:
    """The encoder of the last phase that an unfinished run has finished, which is said in the log."""
    from mexma_cli.settings.load import load_any  # here, since it takes a twentieth of a second
    from mexma_cli.settings.training import DecomposeRecipe  # here, since it takes a twentieth of a second

    recipe = load_any(run / "recipe.yaml")
    phases = [] if isinstance(recipe, DecomposeRecipe) else [phase.name for phase in recipe.phases]
    for phase in reversed(phases):
        if _has_encoder(run / phase / "encoder"):
            log.info("%s is not finished: taking the encoder of its phase `%s`", run, phase)
            return run / phase / "encoder"
    raise MexmaError(
        f"{run} is a training run that holds no encoder",
        "`mexma train RECIPE --resume` finishes a run that was stopped; "
        "a decomposer that was trained without one is used with `mexma project`",
    )


def check_whole(folder: Path, anew: str = "fetch or make the folder anew") -> None:
    """Compare a folder with its checksums; refused, with what to do `anew`, where a file is missing, or is
    not what was written. One that has no checksums, such as other programs', is taken as it is."""
    path = folder / CHECKSUMS
    if not path.is_file():
        return
    hint = f"{anew}; if it was changed on purpose, delete {path}"
    for name, checksum in files.read_manifest(path, Checksums, FORMAT_VERSION, hint).files.items():
        check_content(folder / name, checksum, hint)


def _write_checksums(folder: Path) -> None:
    """All but the model card's, which people write on."""
    names = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    chosen = [name for name in hub.wanted_files(names) if name != "README.md"]
    content = Checksums(files={name: files.checksum_file(folder / name) for name in chosen})
    files.write_json_atomic(folder / CHECKSUMS, content.sealed().model_dump(mode="json"))


def _check_same(folder: Path, new: Path) -> None:
    """Refuse to go on if a folder is not what was made anew: all that decides the vectors counts."""
    written = folder / CHECKSUMS
    if not written.is_file() or written.read_bytes() != (new / CHECKSUMS).read_bytes():
        raise MexmaError(f"{folder} is there already, and is another encoder", "--overwrite makes it anew")
    check_whole(folder, "--overwrite makes it anew")


@contextmanager
def written_aside(path: Path, replace: bool = True) -> Iterator[Path]:
    """A folder to fill. When everything is on disk, its checksums last, it takes its final name, in place of
    an older folder; without `replace`, that has to be what was written again, and stays. If the disk is full,
    or the older folder must not be replaced, it is still there."""
    files.make_folder(files.behind_link(path).parent)
    try:
        with files.no_space_as_message(path), files.workplace(path) as part:
            part.mkdir()
            with files.full_disk_as_os_error(part):
                yield part
                _write_checksums(part)
            if not replace and path.is_dir() and any(path.iterdir()):
                _check_same(path, part)
                return
            for written in part.rglob("*"):
                if written.is_file():
                    written.chmod(0o644)  # safetensors makes its files private
                    with written.open("rb") as file:
                        files.fsync_file(file)
            files.commit(path, own={str(new.relative_to(part)) for new in part.rglob("*")})
    except Exception as error:
        # For a full disk safetensors raises the one and tokenizers the other.
        if not isinstance(error, SafetensorError) and type(error) is not Exception:
            raise
        raise MexmaError(f"{path} could not be written: {error}", "is the disk full?") from error


def check_replaceable(path: Path) -> None:
    """Refuse to write an encoder over a file, or over a folder that holds anything else."""
    files.check_outside_stores(path)
    hint = "name one that is not there yet"
    try:
        str(path).encode()
    except UnicodeEncodeError:  # the tokeniser's library takes no other
        raise MexmaError(f"{path}: the name of an encoder's folder has to be UTF-8", hint) from None
    if path.exists() and not path.is_dir():
        raise MexmaError(f"{path} is a file, not an encoder's folder", hint)
    if Path.cwd().is_relative_to(files.resolved(path)):
        raise MexmaError(f"{path} is the folder that you are in, or holds it", hint)
    if path.is_dir() and any(path.iterdir()):
        of_transformers = "model_type" in (read_json_object(path / "config.json") or {})
        if not (of_transformers or isinstance(read_json_if_there(path / "modules.json"), list)):
            raise MexmaError(f"{path} is a folder that holds no encoder", hint)
