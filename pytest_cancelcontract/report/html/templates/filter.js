// The filters: without this script everything is shown.
(() => {
  const filters = document.getElementById("filters");
  if (!filters) return;
  const buttons = [...filters.querySelectorAll("button")];
  const clause = document.getElementById("clause");
  const name = document.getElementById("name");
  const shown = document.getElementById("shown");
  const drills = [...document.querySelectorAll("article.drill")];
  const rows = new Map([...document.querySelectorAll("tr.row")].map((row) => [row.dataset.drill, row]));
  const cells = new Map(drills.map((drill) => [drill, new Map(drill.dataset.cells.trim().split(/\s+/).filter(Boolean).map((one) => one.split(":")))]));
  let standing = "";

  const fits = (drill) => {
    if (!drill.dataset.name.toLowerCase().includes(name.value.trim().toLowerCase())) return false;
    if (!clause.value) return !standing || drill.dataset.standing === standing;
    // With a clause chosen, it is about how that clause stands.
    const stands = cells.get(drill).get(clause.value);
    return stands !== undefined && (!standing || stands === standing);
  };

  const apply = () => {
    let count = 0;
    for (const drill of drills) {
      const is = fits(drill);
      count += is ? 1 : 0;
      drill.hidden = !is;
      rows.get(drill.id).hidden = !is;
    }
    for (const section of document.querySelectorAll("section.standing")) section.hidden = !section.querySelector("article.drill:not([hidden])");
    for (const cell of document.querySelectorAll("[data-clause]")) cell.classList.toggle("chosen", cell.dataset.clause === clause.value);
    for (const button of buttons) button.setAttribute("aria-pressed", String(button.dataset.standing === standing));
    document.getElementById("none").hidden = count > 0;
    shown.textContent = `${count} of ${drills.length} drills`;
  };

  for (const button of buttons) {
    button.addEventListener("click", () => {
      standing = button.dataset.standing;
      apply();
    });
  }
  clause.addEventListener("change", apply);
  name.addEventListener("input", apply);
  filters.addEventListener("submit", (event) => event.preventDefault());
  // A browser that comes back to the page fills the fields in again.
  window.addEventListener("pageshow", apply);
  filters.hidden = false;
})();
