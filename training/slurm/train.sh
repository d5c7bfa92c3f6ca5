#!/bin/bash
# Train on 10 nodes of 8 GPUs until done, through time limits, preemptions and crashes:
#
#   sbatch training/slurm/train.sh large-v100 /shared/data /shared/runs/large [--set KEY=VALUE ...]
#
# 180 s before the time limit Slurm sends SIGUSR1; the ranks finish their step, save, and the job is
# queued again. A rank that crashes is replaced up to MAX_RESTARTS times without that. A node that
# fails takes the job with it, and Slurm queues it again (--requeue). In each case the run goes on
# from its newest whole checkpoint. DATA and RUN must lie on storage that all nodes share.
#
# Other sizes: sbatch --nodes=2 ..., GPUS_PER_NODE=4 sbatch --gpus-per-node=4 ...; the number of GPUs
# must divide the recipe's micro_batches, and losses do not depend on it.
#SBATCH --job-name=jupyt5-train
#SBATCH --nodes=10
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=8
#SBATCH --cpus-per-task=32
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --signal=B:USR1@180
#SBATCH --open-mode=append
#SBATCH --output=%x-%j.log
set -euo pipefail

if (($# < 3)); then
  echo "usage: sbatch $0 RECIPE DATA RUN [OPTION ...]" >&2
  exit 2
fi
recipe=$1 data=$2 run=$3
shift 3

read -r first_node < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
# The default port differs between jobs that share a node.
port=${MASTER_PORT:-$((20000 + SLURM_JOB_ID % 10000))}

# Else ranks that replace others find the addresses of those that died: pytorch issue 135712.
export TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1

# torchrun passes SIGUSR1 on and gives the ranks 150 s instead of 30; `run --resume` starts a new run
# where there is none yet.
srun --kill-on-bad-exit=1 \
  torchrun \
  --nnodes="$SLURM_JOB_NUM_NODES" \
  --nproc-per-node="${GPUS_PER_NODE:-8}" \
  --max-restarts="${MAX_RESTARTS:-3}" \
  --rdzv-backend=c10d \
  --rdzv-id="$SLURM_JOB_ID" \
  --rdzv-endpoint="$first_node:$port" \
  --signals-to-handle=SIGTERM,SIGINT,SIGHUP,SIGQUIT,SIGUSR1 \
  --shutdown-timeout=150 \
  --no-python \
  jupyt5-train run "$recipe" --data "$data" --out "$run" --resume "$@" &
step=$!

stopping=no
on_signal() {
  stopping=yes
  kill -USR1 "$step" # srun hands it to every torchrun
}
trap on_signal USR1

status=0
wait "$step" || status=$?
# A signal ends `wait`, not the step.
while kill -0 "$step" 2>/dev/null; do
  status=0
  wait "$step" || status=$?
done

if [[ $stopping == yes ]]; then
  echo "queued again after the time limit"
  scontrol requeue "$SLURM_JOB_ID"
  exit 0
fi
exit "$status"
