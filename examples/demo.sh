#!/usr/bin/env bash
# The whole road on real text, with the commands that you would type: `make demo` runs this in .venv.
set -euo pipefail
cd "$(dirname "$0")/.."

started=$SECONDS
texts=examples/spa-eng
out=runs/demo
rm -rf "$out"
mkdir -p "$out"

run() {
  printf '\n$ %s\n' "$*"
  "$@"
}

echo "Two texts of 3,000 lines each: $texts/spa.txt and $texts/eng.txt."
echo "1,000 lines of one have their translation in the other ($texts/gold.tsv says which)."

run mexma embed --lang spa "$texts/spa.txt" -o "$out/spa.emb"
run mexma embed --lang eng "$texts/eng.txt" -o "$out/eng.emb"
run mexma mine "$out/spa.emb" "$out/eng.emb" --margin ratio -o "$out/pairs.tsv"
run head -n 10 "$out/pairs.tsv"
run mexma tune "$out/pairs.tsv" --gold "$texts/gold.tsv" --plot "$out/scores.png"

printf '\n%s s. All pairs, best first: %s; the scores as a picture: %s\n' \
  "$((SECONDS - started))" "$out/pairs.tsv" "$out/scores.png"
