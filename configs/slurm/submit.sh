#!/bin/bash
# Submit a job array of N shards and, after all of them have succeeded, the job that merges them into $OUT/all.
#
#     OUT=runs/q25 MODEL=qwen2_5_vl MODEL_ARGS=pretrained=Qwen/Qwen2.5-VL-7B-Instruct configs/slurm/submit.sh 8 configs/slurm/eval.sbatch
#     OUT=runs/drive AGENT=expert configs/slurm/submit.sh 8 configs/slurm/drive.sbatch
#
# OUT is on a file system that all nodes share. The same command continues after a failure or a time limit: finished
# shards end in a minute, interrupted ones resume. The merge waits for the array; if a shard fails, it is cancelled.
set -euo pipefail
if (($# != 2)); then
    echo "usage: OUT=DIR $0 SHARDS FILE.sbatch" >&2
    exit 2
fi
export OUT="${OUT:?the folder of the results}" SHARDS="$1"
array=$(sbatch --parsable --array="1-$SHARDS" "$2")
array="${array%%;*}" # a federation adds the name of its cluster
merge=$(sbatch --parsable --dependency="afterok:$array" --kill-on-invalid-dep=yes "$(dirname "$0")/merge.sbatch")
echo "array job $array ($SHARDS shards), merge job ${merge%%;*}: tables in $OUT/all and in the merge job's output"
