// The filter of the ledger of claims: three menus above the list, whose counts follow the other two. Without this
// file every claim shows. It does nothing on pages, or in books of one file, where claims do not unfold.
(() => {
  const MENUS = { document: "Document", kind: "Kind", is: "Verdict" };

  function serveLedger() {
    const claims = [...document.querySelectorAll(".ledger > .claim:has(> .claim-details)")];
    if (!claims.length) return;
    const sections = [...new Set(claims.map((claim) => claim.closest("section")))];
    const valueOf = (claim, menu) =>
      [...claim.classList].find((name) => name.startsWith(`${menu}-`)).slice(menu.length + 1);
    const title = (section) => section.querySelector("h2, h3").firstChild.textContent.trim();

    const filter = document.createElement("form");
    filter.className = "ledger-filter";
    filter.setAttribute("aria-label", "Filter the claims");
    const selects = {};
    for (const [menu, name] of Object.entries(MENUS)) {
      const label = document.createElement("label");
      const select = document.createElement("select");
      select.name = menu;
      select.add(new Option("All", ""));
      for (const value of new Set(claims.map((claim) => valueOf(claim, menu)))) {
        const first = claims.find((claim) => valueOf(claim, menu) === value);
        const words = menu === "document" ? title(first.closest("section")) : value.replaceAll("-", " ");
        select.add(new Option(words, value));
      }
      for (const option of select.options) option.dataset.words = option.text;
      label.append(`${name} `, select);
      filter.append(label);
      selects[menu] = select;
    }
    const clear = document.createElement("button");
    Object.assign(clear, { type: "reset", textContent: "Show all" });
    const status = document.createElement("output");
    filter.append(clear, status);
    sections[0].before(filter);

    const matches = (claim, but) =>
      Object.entries(selects).every(
        ([menu, { value }]) => menu === but || !value || valueOf(claim, menu) === value,
      );
    function update() {
      for (const [menu, select] of Object.entries(selects)) {
        const others = claims.filter((claim) => matches(claim, menu));
        for (const option of select.options) {
          const number = others.filter((claim) => !option.value || valueOf(claim, menu) === option.value).length;
          option.text = `${option.dataset.words} (${number})`;
        }
      }
      for (const claim of claims) claim.hidden = !matches(claim);
      for (const section of sections) section.hidden = !section.querySelector(".claim:not([hidden])");
      const shown = claims.filter((claim) => !claim.hidden).length;
      status.textContent = `${shown} of ${claims.length} claims`;
      clear.disabled = shown === claims.length;
    }
    filter.addEventListener("change", update);
    filter.addEventListener("reset", () => setTimeout(update));
    filter.addEventListener("submit", (event) => event.preventDefault());
    update();

    // A link into the page leads to its section, whatever the menus say.
    addEventListener("hashchange", () => {
      if (document.getElementById(decodeURIComponent(location.hash.slice(1)))?.closest("[hidden]")) filter.reset();
    });
  }

  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", serveLedger);
  else serveLedger();
})();
