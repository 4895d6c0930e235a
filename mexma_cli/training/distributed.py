"""Several processes that train one model, a GPU each: what they are, and how they agree.

They are started by torchrun (or `mexma train --nproc-per-node N`, which is the same), and each sees its
rank in the environment. The weights are whole in every process (DDP), or each holds a part of them
(FSDP2). What is decided on the host, such as stopping after a signal, goes over a gloo group of its own,
which waits as long as it takes: while one process writes a checkpoint, the others stand in a barrier, and
a process that dies is noticed by its closed connection, not by a timeout.
"""

from __future__ import annotations

import copy
import os
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import timedelta
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint
from transformers.modeling_layers import GradientCheckpointingLayer

from mexma_cli.errors import MexmaError
from mexma_cli.numerics.devices import pick_device
from mexma_cli.numerics.torch_private import set_timeout
from mexma_cli.objectives.base import Objective
from mexma_cli.training.optimisers import check_state

MEETING = timedelta(minutes=5)
"""How long a process waits for the others to come."""
PATIENCE = timedelta(days=30)
"""How long it then waits for another one's host: preparing text and scoring may take hours."""


def meet(backend: str = "gloo") -> dist.Store:
    """Find the other processes by torchrun's environment, and make torch's default group of all; returns what
    is kept under names for all of them. Refused if some did not come, or cannot be reached."""
    try:
        store, rank, size = next(dist.rendezvous("env://", timeout=MEETING))
        # torchrun's store outlives processes that it starts again: the dead ones' addresses are in it.
        store = dist.PrefixStore(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"), store)
        store.set(f"process {rank} has come", "")
        store.wait([f"process {number} has come" for number in range(size)], MEETING)
    except dist.DistError as error:
        raise MexmaError(
            f"the processes of this run did not meet within {MEETING.seconds} seconds: "
            f"{str(error).splitlines()[0]}",
            "look above for what the others said; if none of them failed, check that all were started, and "
            "that this machine reaches the others",
        ) from error
    dist.init_process_group(backend, store=store, rank=rank, world_size=size)
    return store


def wait_long(group: dist.ProcessGroup | None = None) -> None:
    """Let a group whose processes have met (None: torch's default group) wait `PATIENCE` for one another."""
    set_timeout(group, PATIENCE)


class Processes:
    """The processes of a run as one of them sees them; without torchrun it is alone.

    Attributes:
        rank: From 0; rank 0 writes all files.
        size: How many there are.
    """

    def __init__(self) -> None:
        self.rank, self.size, self._local_rank = 0, 1, 0
        self._host: dist.ProcessGroup | None = None
        self._store: dist.Store | None = None

    @classmethod
    @contextmanager
    def joined(cls) -> Iterator[Processes]:
        """Find the others by torchrun's environment, and leave them in the end.

        The first process that fails says why. The others end without a word, since all that they could say
        is that this one is gone.
        """
        processes = cls()
        try:
            processes._join()
            yield processes
        except Exception as error:
            if not processes._is_first_to_fail():
                raise SystemExit(1) from None
            lost = _lost(error) if processes.size > 1 else None
            if lost is None:
                raise
            raise lost from error
        if processes.size > 1:  # not after an error: it would wait for those that are gone
            dist.destroy_process_group()

    def _join(self) -> None:
        size = int(os.environ.get("WORLD_SIZE", "1"))
        if size == 1:
            return
        self._local_rank = int(os.environ.get("LOCAL_RANK", "0"))
        nccl = torch.cuda.is_available() and dist.is_nccl_available()
        if nccl:
            torch.cuda.set_device(self._local_rank % torch.cuda.device_count())
        self._store = meet("cpu:gloo,cuda:nccl" if nccl else "gloo")
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        self._host = dist.new_group(backend="gloo", timeout=MEETING)
        wait_long(self._host)

    def _is_first_to_fail(self) -> bool:
        if self._store is None:
            return True
        try:
            return self._store.add("failed", 1) == 1
        except RuntimeError:  # the store has ended with rank 0
            return True

    @property
    def first(self) -> bool:
        """Whether this is the one that writes files and talks."""
        return self.rank == 0

    def device(self, name: str) -> torch.device:
        """This process's device for a recipe's `trainer.device`: of several processes each has its own GPU,
        and one GPU by its number for all of them is refused."""
        if self.size == 1 or name == "cpu":
            return pick_device(name)
        if name not in ("auto", "cuda"):
            raise MexmaError(
                f"trainer.device is {name!r}, and {self.size} processes share it",
                "`auto` or `cuda` gives each process its own",
            )
        with_cuda = name == "cuda" or torch.cuda.is_available()
        return pick_device(f"cuda:{self._local_rank}" if with_cuda else "cpu")

    def wait(self) -> None:
        """Until all are here."""
        if self.size > 1:
            dist.barrier(group=self._host)

    def any(self, flag: bool) -> bool:
        """Whether the flag is set in any process."""
        return bool(self.sum(torch.tensor([float(flag)]))[0])

    def sum(self, values: torch.Tensor) -> torch.Tensor:
        """The sum over processes, float64 on the host, the same in all of them."""
        values = values.detach().to("cpu", torch.float64)
        if self.size > 1:
            dist.all_reduce(values, group=self._host)
        return values

    def gather(self, value: Any) -> list[Any]:
        """A small object of every process, in the order of ranks."""
        if self.size == 1:
            return [value]
        values = [None] * self.size
        dist.all_gather_object(values, value, group=self._host)
        return values


def _lost(error: Exception) -> MexmaError | None:
    """A message for what the libraries say when another process has gone."""
    text = str(error)
    if isinstance(error, dist.DistError) or (isinstance(error, RuntimeError) and "gloo" in text.lower()):
        return MexmaError(
            f"another process of this run is gone, or cannot be reached: {text.splitlines()[0]}",
            "look above for what it said; --resume goes on from the last checkpoint",
        )
    return None


class Shared:
    """An objective on its device, shared by the processes: `model` is what is called in its place. If
    `sharded`, each process holds a part of every weight, its gradient and the optimiser's state. The
    parameters that are not trained have `requires_grad` off already."""

    def __init__(
        self, objective: Objective, processes: Processes, device: torch.device, sharded: bool
    ) -> None:
        self.objective = objective
        self._processes, self._device = processes, device
        self._sharded = sharded and processes.size > 1
        self.model: nn.Module = objective
        if self._sharded:
            # On the host, for the moments in which the whole encoder is wanted.
            self._whole = copy.deepcopy(objective) if processes.first else None
            _shard(objective, processes.size, device)
        else:
            objective.to(device)
            if processes.size > 1:
                with warnings.catch_warnings(action="ignore", category=FutureWarning):
                    # Its successor, which the warning names, is not in all versions of torch that we take.
                    self.model = DistributedDataParallel(
                        objective, broadcast_buffers=False, gradient_as_bucket_view=True
                    )

    def accumulating(self, last: bool) -> AbstractContextManager[object]:
        """The context of a micro-batch: whole gradients are exchanged with the last one only.

        Sharded ones are exchanged each time: keeping them whole would take the memory that sharding saves.
        """
        if isinstance(self.model, DistributedDataParallel) and not last:
            return self.model.no_sync()
        return nullcontext()

    @contextmanager
    def exportable(self) -> Iterator[Objective | None]:
        """The objective with whole weights, in evaluation mode; in the first process, else None."""
        if self._sharded:
            weights = whole(self.objective.state_dict(), kept=self._processes.first)
            if self._whole is not None:
                self._whole.load_state_dict(weights)
                self._whole.to(self._device)
        try:
            chosen = self._whole if self._sharded else self.objective
            yield chosen.eval() if chosen is not None and self._processes.first else None
        finally:
            if self._sharded and self._whole is not None:
                self._whole.to("cpu")


def _shard(objective: Objective, size: int, device: torch.device) -> None:
    mesh = init_device_mesh(device.type, (size,))
    for module in objective.modules():
        if isinstance(module, GradientCheckpointingLayer):  # a transformer's layer
            fully_shard(module, mesh=mesh)
    # What is left, the word embeddings above all, stays together from the forward to the backward pass:
    # the unmasking head reads them outside the encoder.
    fully_shard(objective, mesh=mesh)


def save_activations(objective: Objective) -> None:
    """Layers forget their activations and compute them again when the gradients need them."""
    for module in objective.modules():
        if isinstance(module, GradientCheckpointingLayer):
            module.gradient_checkpointing = True
            module._gradient_checkpointing_func = partial(checkpoint, use_reentrant=False)


def whole(tree: Any, kept: bool = True) -> Any:
    """A state dict with whole tensors, on the host, in place of parts; every process has to ask for it. What
    is not `kept` is of a process that only helps: eight copies of all states may be more than the host
    has."""
    if isinstance(tree, dict):
        return {key: whole(value, kept) for key, value in tree.items()}
    if isinstance(tree, list | tuple):
        return [whole(value, kept) for value in tree]
    if not isinstance(tree, DTensor):
        return tree
    found = tree.full_tensor()
    return found.cpu() if kept else None


def part_of(value: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """A whole tensor as `like` is held here: on its device, cut to this process's part."""
    value = value.to(like.device)
    if not isinstance(like, DTensor):
        return value
    return distribute_tensor(value, like.device_mesh, like.placements, src_data_rank=None)


def load_optimiser(optimiser: torch.optim.Optimizer, saved: dict[str, Any]) -> None:
    """Load an optimiser's whole state dict, as `check_state` allows it; of tensors with a parameter's rows
    the part that is held here. The settings stay those of the recipe."""
    check_state(optimiser, saved)
    parameters = [p for group in optimiser.param_groups for p in group["params"]]

    def has_rows(value: Any, parameter: torch.Tensor) -> bool:
        shaped = isinstance(value, torch.Tensor) and value.dim() == parameter.dim() > 0
        return shaped and len(value) == len(parameter)

    state = {
        index: {
            name: part_of(value, parameters[index]) if has_rows(value, parameters[index]) else value
            for name, value in entry.items()
        }
        for index, entry in saved["state"].items()
    }
    optimiser.load_state_dict(optimiser.state_dict() | {"state": state})
