"use strict";
// Without this script every group of attempts is on the page, one below the other; with it, one at a time.
(() => {
  const groups = [...document.querySelectorAll(".group")];
  const field = (name) => document.getElementById(name);
  const [kind, task] = ["kind", "task"].map(field);
  let shown = [];

  const show = (place) => {
    groups.forEach((group) => { group.hidden = group !== shown[place]; });
    task.selectedIndex = place;
    field("place").textContent = shown.length ? `${place + 1} of ${shown.length}` : "no such task";
    field("previous").disabled = place <= 0;
    field("next").disabled = place >= shown.length - 1;
  };

  const filter = () => {
    shown = groups.filter((group) => !kind.value || group.dataset.kinds.split(" ").includes(kind.value));
    task.replaceChildren(...shown.map((group) => new Option(group.dataset.label)));
    show(shown.length ? 0 : -1);
  };

  const move = (by) => {
    const place = task.selectedIndex + by;
    if (place >= 0 && place < shown.length) show(place);
  };

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || /^select$/i.test(document.activeElement.tagName)) return;
    if (event.key === "j") move(1);
    if (event.key === "k") move(-1);
  });

  const follow = () => { // a link from a new task to a failure
    const place = groups.findIndex((group) => `#${group.id}` === location.hash);
    if (place < 0) return;
    kind.value = "";
    filter();
    show(place);
    groups[place].scrollIntoView();
  };

  kind.addEventListener("change", filter);
  task.addEventListener("change", () => show(task.selectedIndex));
  field("previous").addEventListener("click", () => move(-1));
  field("next").addEventListener("click", () => move(1));
  window.addEventListener("hashchange", follow);
  field("picker").hidden = false;
  filter();
  follow();
})();
