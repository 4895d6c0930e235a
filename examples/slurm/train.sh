#!/bin/bash
# A training on several nodes: sbatch examples/slurm/train.sh RECIPE [--set KEY=VALUE ...]
#
# The run's folder, data.store and data.root are on a disk that all nodes see. Prepare the text before, on one
# node (`mexma prepare RECIPE`). A job that ends early, or that --requeue starts again, goes on from the last
# checkpoint, which Slurm's signal writes, too.
#SBATCH --job-name=mexma
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=8
#SBATCH --cpus-per-task=64
#SBATCH --time=72:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=TERM@120
#SBATCH --output=%x-%j.log

set -euo pipefail
[ $# -gt 0 ] || { echo "usage: sbatch $0 RECIPE [--set KEY=VALUE ...]" >&2; exit 2; }

# The rendezvous: the first node's address, and a port that follows from the job's number.
HEAD=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
PORT=$((20000 + SLURM_JOB_ID % 20000))
GPUS=${SLURM_GPUS_ON_NODE:-8}

export OMP_NUM_THREADS=$((${SLURM_CPUS_PER_TASK:-$GPUS} / GPUS))
# Name the network that joins the nodes where NCCL takes a wrong one (see `ip link`); INFO says which it takes.
# export NCCL_SOCKET_IFNAME=ib0
# export NCCL_IB_HCA=mlx5
export NCCL_DEBUG=${NCCL_DEBUG:-WARN}
# A process whose partner has died ends, and does not wait for ever.
export TORCH_NCCL_ASYNC_ERROR_HANDLING=1

# --resume begins a run that is not there, and goes on with one that is; torchrun starts all processes again, up
# to three times, after one has died.
srun --kill-on-bad-exit=1 torchrun \
  --nnodes "$SLURM_JOB_NUM_NODES" --nproc-per-node "$GPUS" \
  --rdzv-id "$SLURM_JOB_ID" --rdzv-backend c10d --rdzv-endpoint "$HEAD:$PORT" --max-restarts 3 \
  -m mexma_cli train --resume "$@"
