// The form on "Run it yourself": hours = PFLOP a run · runs / (peak · share), cost = hours · price.
// Everything else it needs stands in the page; without this file the form stays hidden.
document.addEventListener("DOMContentLoaded", () => {
  for (const form of document.querySelectorAll(".cost-form")) {
    const value = (name) => Number(form.elements[name].value);
    const update = () => {
      const rate = (value("peak") / 1000) * (value("share") / 100); // PFLOP/s
      const hours = (value("recipe") * value("runs")) / rate / 3600;
      const output = form.querySelector("output");
      if (!(rate > 0) || !(hours >= 0)) {
        output.textContent = "Peak and share must be above 0.";
        return;
      }
      const priced = form.elements.price.value !== "";
      const cost = priced ? `, which cost ${(hours * value("price")).toFixed(2)} at your price` : "";
      output.textContent = `${hours.toFixed(2)} GPU-hours${cost}.`;
    };
    form.addEventListener("input", update);
    form.addEventListener("submit", (event) => event.preventDefault());
    form.hidden = false;
    update();
  }
});
