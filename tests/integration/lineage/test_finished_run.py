"""TRL trains on exported data, which `datasets` opens."""

from pathlib import Path
from typing import Any

from coevolve.core.io import write_jsonl
from tests.unit.lineage.test_finished_run import TINY, episodes, rows  # noqa: F401  (fixtures)


def test_datasets_opens_the_export_and_trl_trains_on_it(
    rows: list[dict[str, Any]],  # noqa: F811
    tmp_path: Path,
) -> None:
    from datasets import load_dataset
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from trl import SFTConfig, SFTTrainer

    file = tmp_path / "train.jsonl"
    write_jsonl(file, rows)
    data = load_dataset("json", data_files=str(file), split="train", cache_dir=str(tmp_path / "cache"))
    assert data[0]["messages"] == rows[0]["messages"]
    assert data[5]["tools"] == rows[5]["tools"]
    model = AutoModelForCausalLM.from_pretrained(TINY)
    before = {name: value.clone() for name, value in model.named_parameters()}
    place, steps = str(tmp_path / "out"), {"max_steps": 1, "per_device_train_batch_size": 2}
    config = SFTConfig(output_dir=place, report_to=[], use_cpu=True, bf16=False, **steps)
    columns, words = data.select_columns(["messages", "tools"]), AutoTokenizer.from_pretrained(TINY)
    trainer = SFTTrainer(model, args=config, train_dataset=columns, processing_class=words)
    trained = trainer.train()
    assert trained.training_loss > 0
    assert any(not value.equal(before[name]) for name, value in trainer.model.named_parameters())
