"""Train with TRL on the tasks of an ORS server, which may run on another machine.

coevolve env serve miniworld --tasks accepted.jsonl --protocol ors     # in another terminal
python examples/trl_ors.py                  # with trl and openreward 0.1.167 installed; prints the number of tasks
"""

import os

URL = "http://127.0.0.1:8000"
os.environ |= {"OPENREWARD_API_URL": URL, "OPENREWARD_SESSION_URL": URL}  # else the client asks api.127.0.0.1

from trl.experimental.openreward import OpenRewardSpec  # noqa: E402

spec = OpenRewardSpec(URL)
data = {
    "train_dataset": spec.train_dataset,
    "environment_factory": spec.environment_factory,
    "reward_funcs": spec.reward_funcs,
}
print(f"{len(spec.train_dataset)} tasks; next: GRPOTrainer(model, args=GRPOConfig(...), **data)")
