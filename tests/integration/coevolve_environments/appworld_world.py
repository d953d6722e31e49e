"""Author a small world for AppWorld's engine: `python appworld_world.py ROOT`, with the Python that has AppWorld.

Two scenarios of three tasks: a note to add, and a question to answer. It is not the benchmark, and says so.
"""

import json
import sys
from datetime import datetime
from pathlib import Path

from appworld import update_root

ROOT = Path(sys.argv[1])
update_root(str(ROOT))

from appworld.api_docs import prepare_api_docs  # noqa: E402
from appworld.apps import get_all_apps  # noqa: E402
from appworld.apps.admin.models import MainUserMunch  # noqa: E402
from appworld.collections.models import ModelCollection  # noqa: E402
from appworld.common.constants import DB_VERSION  # noqa: E402
from appworld.task import Task  # noqa: E402

NOW = datetime(2023, 5, 18, 12)
PEOPLE = (("Ada", "Gray"), ("Ben", "Holm"), ("Cleo", "Ito"))
NOTE = """
def evaluate(test, public_data, private_data, main_user, models, ground_truth_answer):
    with test("one note was added, and nothing else changed"):
        test.case(models.changed_model_names(), "==", {"simple_note.Note"})
        added, updated, removed = models.changed_records("simple_note.Note")
        test.case(len(added), "==", 1)
        test.case(len(updated) + len(removed), "==", 0)
        test.case(added[0].title, "==", public_data.title)
    with test("its content is as asked"):
        added, updated, removed = models.changed_records("simple_note.Note")
        test.case([one.content for one in added], "==", [public_data.content])
"""
QUESTION = """
def evaluate(test, public_data, private_data, main_user, models, ground_truth_answer):
    with test("the answer is right"):
        test.case(models.end.supervisor.Task.first().answer, "==", '"' + ground_truth_answer + '"')
"""
ADD_NOTE = """
def solution(apis, requester):
    passwords = {one["account_name"]: one["password"] for one in apis.supervisor.show_account_passwords()}
    email = apis.supervisor.show_profile()["email"]
    token = apis.simple_note.login(username=email, password=passwords["simple_note"])["access_token"]
    apis.simple_note.create_note(access_token=token, title=%r, content=%r)
    apis.supervisor.complete_task()
"""
ANSWER = """
def solution(apis, requester):
    apis.supervisor.complete_task(answer=apis.simple_note.show_profile(email=%r)["first_name"])
"""


def write(path: Path, value: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(value if isinstance(value, str) else json.dumps(value))


def author(name: str, number: int, instruction: str, **ground_truth: object) -> None:
    """A task and its world: three people with notes. The first person is the supervisor."""
    place = f":memory:task_input-{name}"
    models = ModelCollection.load(place, place, get_all_apps(), create_db=True)
    for index, (first, last) in enumerate(PEOPLE[number:] + PEOPLE[:number]):
        email = f"{first.lower()}@example.com"
        about = {"first_name": first, "last_name": last, "email": email, "phone_number": f"555000{number}{index}00"}
        user = models.simple_note.User(
            first_name=first, last_name=last, email=email, password="secret123", created_at=NOW, last_logged_in=NOW,
            verified=True,
        )  # fmt: skip
        user.save()
        models.simple_note.Note(
            user_id=user.id, title="groceries", content="milk", tags=[], created_at=NOW, updated_at=NOW, pinned=False
        ).save()
        if index == 0:
            main, born = about, {"birthday": "1990-01-01", "sex": "female"}
            models.admin.MainUser(**about, **born).save()
            supervisor = models.supervisor.Supervisor(**about, **born)
            supervisor.save()
            models.supervisor.AccountPassword(
                supervisor_id=supervisor.id, account_name="simple_note", password="secret123"
            ).save()
            models.supervisor.Task(supervisor_id=supervisor.id, instruction=instruction).save()
    person, apps = MainUserMunch(**main), get_all_apps(skip_admin=True)
    task = Task(name, instruction, person, NOW, apps, DB_VERSION, model_collection=models)
    task.save(delete_if_exists=True)
    task.close()
    counts = dict.fromkeys(("num_apps", "num_apis", "num_api_calls", "num_solution_code_lines"), 1)
    files = {"metadata.json": {"difficulty": 1, "mode": "minimal", **counts}, "private_data.json": {}, **ground_truth}
    for file, value in files.items():
        write(ROOT / "data/tasks" / name / "ground_truth" / file, value)


def main() -> None:
    write(ROOT / "data/GENERATED", "not the benchmark\n")
    for app in get_all_apps(skip_admin=True):
        docs = {one["api_name"]: {**one, "canary_string": ""} for one in prepare_api_docs(app)}
        write(ROOT / f"data/api_docs/standard/{app}.json", docs)
    for number, (first, _) in enumerate(PEOPLE):
        title, content = f"plans {number}", "paint the fence"
        author(
            f"note_{number + 1}", number, f"Add a note titled '{title}' with the content '{content}'.",
            **{
                "public_data.json": {"title": title, "content": content}, "answer.json": "null", "evaluation.py": NOTE,
                "test_data.json": [
                    {"requirement": "one note was added, and nothing else changed", "label": "no_op_fail"},
                    {"requirement": "its content is as asked", "label": "no_op_fail"},
                ],
                "compiled_solution.py": ADD_NOTE % (title, content),
            },
        )  # fmt: skip
        email = f"{first.lower()}@example.com"
        author(
            f"name_{number + 1}", number, f"What is the first name of {email} in Simple Note?",
            **{
                "public_data.json": {}, "answer.json": json.dumps(first), "evaluation.py": QUESTION,
                "test_data.json": [{"requirement": "the answer is right", "label": "no_op_fail"}],
                "compiled_solution.py": ANSWER % email,
            },
        )  # fmt: skip
    for split, scenario in (("train", "note"), ("dev", "name"), ("test_normal", "note"), ("test_challenge", "name")):
        picked = (1,) if split in ("train", "dev") else (2, 3)
        write(ROOT / f"data/datasets/{split}.txt", "".join(f"{scenario}_{number}\n" for number in picked))


main()
