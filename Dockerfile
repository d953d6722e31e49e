# coevolve on GPUs: CUDA, vLLM, DeepSpeed. A laptop needs none of this: `make repro`.
#
#   docker build -t coevolve .
#   docker run --rm --gpus all --ipc host -v "$PWD":/project -v hub:/hub -e HF_HUB_OFFLINE=0 coevolve dvc repro
#
# The repository is mounted, not copied, so DVC's files stay outside. --ipc host gives NCCL its shared memory.
FROM nvidia/cuda:12.9.1-devel-ubuntu24.04

ENV DEBIAN_FRONTEND=noninteractive PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
RUN apt-get update \
    && apt-get install -y --no-install-recommends git make g++ python3.12 python3.12-dev python3.12-venv \
    && rm -rf /var/lib/apt/lists/*

# dependencies first: they change seldom
RUN python3.12 -m venv /venv
ENV PATH=/venv/bin:$PATH
WORKDIR /build
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY params.yaml dvc.yaml .gitattributes .gitignore .dvcignore ./
COPY .dvc/config .dvc/plots.html .dvc/
COPY reviews/README.md reviews/README.md
COPY src src
RUN pip install -c constraints.txt '.[train,gpu,wandb]' 'psycopg[binary]>=3.2' bitsandbytes \
    && pip install --no-deps -r src/coevolve_environments/requirements/bfcl.txt \
    && pip uninstall -y coevolve

# run the code of the mounted repository
WORKDIR /project
ENV PYTHONPATH=/project/src HF_HOME=/hub OMP_NUM_THREADS=1 MLFLOW_DISABLE_TELEMETRY=true HF_HUB_DISABLE_TELEMETRY=1 DO_NOT_TRACK=1
RUN git config --global --add safe.directory /project \
    && printf '#!/bin/sh\nexec python -m coevolve.cli "$@"\n' > /usr/local/bin/coevolve && chmod +x /usr/local/bin/coevolve
CMD ["coevolve", "doctor"]
