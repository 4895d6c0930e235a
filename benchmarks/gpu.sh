#!/usr/bin/env bash
# The first hour on a GPU: everything that a processor cannot show, in order, into one report.
#
#   bash benchmarks/gpu.sh DATA [FOLDER]      (DATA: tatoeba_mt/, bible/, ntrex128/, tatoeba/, mining/ below it)
#
# In a checkout, with `mexma` and its tests' packages installed and torch built for the GPU. A step that is done
# is not done again: after a mistake, or a lost machine whose FOLDER was kept, run the same line. FOLDER
# (runs/gpu) gets a log for each step, and report.md. DEVICE=cpu tries the script itself without a GPU.
set -uo pipefail
[ $# -ge 1 ] || { sed -n '2,9s/^# \{0,1\}//p' "$0"; exit 2; }
data=$(realpath "$1") out=$(realpath -m "${2:-runs/gpu}") device=${DEVICE:-cuda}
cd "$(dirname "$0")/.." || exit
[ "$device" = cpu ] || python -c 'import sys, torch; sys.exit(not torch.cuda.is_available())' ||
  { echo "torch finds no GPU here; DEVICE=cpu tries the script without one" >&2; exit 1; }
mkdir -p "$out"
report=$out/report.md

step() { # NAME COMMAND...: runs it unless it has been done
  local name=$1 began=$SECONDS code
  shift
  if [ ! -e "$out/$name.done" ]; then
    echo "$name: $*" >&2
    "$@" > "$out/$name.log" 2>&1
    code=$?
    echo "$code $((SECONDS - began))" > "$out/$name.ended"
    [ $code = 0 ] && touch "$out/$name.done"
  fi
  read -r code seconds < "$out/$name.ended"
  {
    printf '\n## %s\n\n`%s`: exit code %s, %s s\n\n```text\n' "$name" "$*" "$code" "$seconds"
    tail -n 60 "$out/$name.log" | tr '\r' '\n' | tail -n 60
    printf '```\n'
  } >> "$report"
}

same_pairs() { # mining on the device gives the bytes of mining on the processor
  mexma mine --device cpu "$out/spa.emb" "$out/eng.emb" --memory 8G -o "$out/cpu.tsv" &&
    mexma mine --device "$device" "$out/spa.emb" "$out/eng.emb" --memory 8G -o "$out/device.tsv" &&
    cmp "$out/cpu.tsv" "$out/device.tsv" && echo "the same bytes"
}

embed() { # the demo's texts on the device
  local side
  for side in spa eng; do
    mexma embed --device "$device" --lang $side examples/spa-eng/$side.txt -o "$out/$side.emb" || return
  done
}

printf '# The first hour on a GPU\n\n%s, %s\n' "$(date -u +%F)" "$(git rev-parse --short HEAD)" > "$report"
step doctor mexma doctor
step xformers python -m xformers.info
step tests python -m pytest -q -m gpu
step embed embed
step same_pairs same_pairs
step embed_base python benchmarks/embed.py --data "$data" --device "$device" --lines 20000 --rounds 2 --threads "$(nproc)"
step encoder python benchmarks/encoder.py --data "$data" --languages fra_Latn,deu_Latn
step mine python benchmarks/mine.py --rows 200000 400000 -k 4 --threads "$(nproc)" --peers torch --ann none
step train_small python benchmarks/train.py --data "$data" --device "$device" --shape small
step train_base python benchmarks/train.py --data "$data" --device "$device" --shape base --pairs 128 --steps 8 --rounds 1
step train_large python benchmarks/train.py --data "$data" --device "$device" --shape large --pairs 150 --steps 6 --rounds 1
step train_mini mexma train mini --resume --set data.root="$data" --set data.store="$out/mini/data" --set run="$out/mini"
step mini_there python benchmarks/encoder.py "$out/mini/encoder" --data "$data" --languages fra_Latn,deu_Latn
step train_largest python benchmarks/train.py --data "$data" --device "$device" --shape base --largest
[ "$(python -c 'import torch; print(torch.cuda.device_count())')" -lt 2 ] ||
  step all_gpus mexma embed --gpus all --lang spa examples/spa-eng/spa.txt -o "$out/all.emb"
echo "$report" >&2
