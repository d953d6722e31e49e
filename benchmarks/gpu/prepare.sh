#!/usr/bin/env bash
# Pack what the GPU machine lacks into .gpu/1, .gpu/2 and .gpu/3, the folders that the three calls carry (README.md).
#
#     bash benchmarks/gpu/prepare.sh     # after `make develop`: some minutes, 2 GB of memory
#
# LIMIT_MIB is the most that may travel in one call, the working tree included.
set -euo pipefail
cd "$(dirname "$0")/../.."
limit=$((${LIMIT_MIB:-60} * 1024 * 1024))
python=${PYTHON:-.venv/bin/python}
mkdir -p .gpu/all
echo '*' > .gpu/.gitignore    # so the folder travels only where a call names it

# packages that the GPU machine lacks, for the stages up to evaluate (peft is there, in a version of its own)
core="pydantic pydantic_core annotated-types typing-inspection typing_extensions ruamel.yaml datasets dill multiprocess trl peft"
# for signals and validate
more="duckdb great_expectations jsonschema jsonschema-specifications referencing rpds-py marshmallow mistune tzlocal cryptography cffi pycparser altair"

# wheels NAME PACKAGE...: the packages' wheels for Python 3.12, as constraints.txt pins them, unpacked into .gpu/all/NAME.tar.xz
wheels() {
    local name=$1 pins=() package folder
    shift
    folder=$(mktemp -d)
    for package in "$@"; do
        pins+=("$(grep -i -x -E "${package//[-_.]/[-_.]}==.*" constraints.txt)") || { echo "constraints.txt lacks $package" >&2; exit 1; }
    done
    "$python" -m pip download -q --no-deps --only-binary=:all: --python-version 3.12 --implementation cp \
        $(printf -- '--platform manylinux%s_x86_64 ' _2_28 _2_27 _2_24 _2_17 2014 1) -d "$folder" "${pins[@]}"
    "$python" - "$folder" ".gpu/all/$name.tar.xz" <<'P'
import sys, tarfile, zipfile
from pathlib import Path
folder, archive = map(Path, sys.argv[1:])
for wheel in folder.glob("*.whl"):
    zipfile.ZipFile(wheel).extractall(folder / "site")
with tarfile.open(archive, "w:xz") as file:
    file.add(folder / "site", arcname="site")
P
    rm -rf "$folder"
}

test -f .gpu/all/core.tar.xz || wheels core $core
test -f .gpu/all/more.tar.xz || wheels more $more
if ! test -f .gpu/all/model/index.xz; then
    test -f .gpu/all/smollm2.gguf || "$python" benchmarks/smollm2.py models/smollm2 --gguf .gpu/all/smollm2.gguf
    "$python" benchmarks/gpu/model_pack.py pack models/smollm2 .gpu/all/smollm2.gguf .gpu/all/model
fi

bytes() { du -sb "$1" | cut -f1; }
tree=$(git ls-files -z --cached --others --exclude-standard | xargs -0 stat -c %s 2>/dev/null | awk '{s += $1} END {print s}')
rm -rf .gpu/[123]
mkdir -p .gpu/{1,2,3}/model
cp .gpu/all/core.tar.xz .gpu/1
cp .gpu/all/model/index.xz .gpu/1/model
if test -d .gpu/all/adapter-0; then cp -r .gpu/all/adapter-0 .gpu/1; fi    # of an earlier day (README.md)
put() { # FILE FOLDER: into the first part from the current one on that has room
    while test $((tree + $(bytes ".gpu/$part") + $(bytes "$1"))) -gt "$limit"; do
        part=$((part + 1))
        test "$part" -le 3 || { echo "$1 does not fit: raise LIMIT_MIB, or make the tree smaller" >&2; exit 1; }
    done
    cp "$1" ".gpu/$part/$2"
}
part=1
for file in $(ls -S .gpu/all/model/[0-9]*.xz); do put "$file" model; done
if test "$part" = 3; then echo "the model needs all three calls: run third.sh before second.sh"; fi
part=3
put .gpu/all/more.tar.xz .
echo "working tree: $((tree >> 20)) MiB"
for part in 1 2 3; do echo ".gpu/$part: $(($(bytes ".gpu/$part") >> 20)) MiB, with the tree $((($(bytes ".gpu/$part") + tree) >> 20)) MiB of 64"; done
