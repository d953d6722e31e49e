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

  const inReader = () => !/^select$/i.test(document.activeElement.tagName);
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

  [iteration, kind].forEach((one) => one.addEventListener("change", filter));
  task.addEventListener("change", () => show(task.selectedIndex));
  field("previous").addEventListener("click", () => move(-1));
  field("next").addEventListener("click", () => move(1));
  field("picker").hidden = false;
  filter();
})();
