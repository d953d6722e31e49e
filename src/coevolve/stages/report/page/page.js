"use strict";
// Without this script every group of attempts is on the page, one below the other; with it, one at a time.
(() => {
  const groups = [...document.querySelectorAll(".group")];
  const field = (name) => document.getElementById(name);
  const [iteration, kind, task] = ["iteration", "kind", "task"].map(field);
  let shown = [];

  const fits = (group) =>
    (!iteration.value || group.dataset.iteration === iteration.value) &&
    (!kind.value || group.dataset.kinds.split(" ").includes(kind.value));

  const show = (place) => {
    groups.forEach((group) => { group.hidden = group !== shown[place]; });
    task.selectedIndex = place;
    field("place").textContent = shown.length ? `${place + 1} of ${shown.length}` : "no such task";
    field("previous").disabled = place <= 0;
    field("next").disabled = place >= shown.length - 1;
  };

  const filter = () => {
    shown = groups.filter(fits);
    task.replaceChildren(...shown.map((group) => new Option(`${group.dataset.iteration}: ${group.dataset.label}`, group.id)));
    show(shown.length ? 0 : -1);
  };

  const move = (by) => {
    const place = task.selectedIndex + by;
    if (place >= 0 && place < shown.length) show(place);
  };

  const attempt = (by) => {
    const open = [...document.querySelectorAll(".group:not([hidden]) .attempt")];
    const next = open[Math.min(Math.max(open.indexOf(document.activeElement) + by, 0), open.length - 1)];
    if (next) { next.focus(); next.scrollIntoView({ block: "nearest", inline: "nearest" }); }
  };

  const inReader = () => !/^(select|input|textarea)$/i.test(document.activeElement.tagName);
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !inReader()) return;
    const keys = { j: () => move(1), k: () => move(-1) };
    if (document.activeElement.closest("#reader")) Object.assign(keys, { ArrowRight: () => attempt(1), ArrowLeft: () => attempt(-1) });
    if (keys[event.key]) { keys[event.key](); event.preventDefault(); }
  });

  // a chart's marks say their values in aria-label: shown where the pointer is
  const tip = field("tip");
  document.addEventListener("pointermove", (event) => {
    const mark = event.target.closest?.(".chart :is([aria-roledescription=point], [aria-roledescription=bar], [aria-roledescription='rect mark'])");
    tip.hidden = !mark;
    if (!mark) return;
    tip.textContent = mark.getAttribute("aria-label");
    tip.style.left = `${Math.min(event.clientX + 12, innerWidth - tip.offsetWidth - 8)}px`;
    tip.style.top = `${Math.min(event.clientY + 12, innerHeight - tip.offsetHeight - 8)}px`;
  });

  // decisions on tasks: kept in the page until they are saved as a file for the folder reviews
  const decisions = () => [...document.querySelectorAll(".review > li")].flatMap((item) => {
    const decision = item.querySelector("input[type=radio]:checked")?.value;
    const boxes = [...item.querySelectorAll(".rewording")];
    const turns = boxes.map((one) => one.value.trim());
    const reason = item.querySelector(".reason").value.trim();
    const whole = { accept: true, reject: reason, reword: turns.every(Boolean) && boxes.some((one) => one.value.trim() !== one.defaultValue.trim()) };
    if (!decision || !whole[decision]) return [];
    const row = { task_id: item.dataset.task, decision, reviewer: field("reviewer").value, reason: decision === "reject" ? reason : "" };
    return [{ ...row, turns: decision === "reword" ? turns : [], schema_version: 1 }];
  });

  const review = (event) => {
    const item = event.target.closest("li");
    const decision = item?.querySelector("input[type=radio]:checked")?.value;
    if (item) {
      item.querySelector(".reason").hidden = decision !== "reject";
      item.querySelectorAll(".rewording").forEach((one) => { one.hidden = decision !== "reword"; });
    }
    const count = decisions().length;
    field("decided").textContent = count;
    field("download").disabled = !count || !field("reviewer").value || !field("reviewer").checkValidity();
  };

  if (field("save")) {
    field("save").hidden = false;
    document.querySelectorAll(".choice").forEach((one) => { one.hidden = false; });
    field("review").addEventListener("input", review);
    field("download").addEventListener("click", () => {
      const link = document.createElement("a");
      link.href = URL.createObjectURL(new Blob([decisions().map((one) => `${JSON.stringify(one)}\n`).join("")], { type: "application/jsonl" }));
      link.download = `${field("reviewer").value}.jsonl`;
      link.click();
      URL.revokeObjectURL(link.href);
    });
  }

  [iteration, kind].forEach((one) => one.addEventListener("change", filter));
  task.addEventListener("change", () => show(task.selectedIndex));
  field("previous").addEventListener("click", () => move(-1));
  field("next").addEventListener("click", () => move(1));
  field("picker").hidden = false;
  filter();
})();
