/* Data that a page fetches when its reader comes near, kept by rollpe_book.extension.site.write_data: scripts that set
   a property of their own element, because a page that was opened as a file may load scripts and nothing else. */

const base = document.currentScript.src;
const loading = {};

/** The address of another page of the book. */
export const pageAt = (name) => new URL(`../${name}`, base).href;

/** A promise of the value in data/NAME.js, beside this script. */
export const loadData = (name) => {
  loading[name] ||= new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = new URL(`data/${name}.js`, base).href;
    script.onload = () => resolve(script.value);
    script.onerror = () => reject(new Error(`${script.src} could not be loaded`));
    document.head.append(script);
  });
  return loading[name];
};

/** Calls `act` once, when the element comes within a screen of what its reader sees. */
export const whenNear = (element, act) => {
  const watch = new IntersectionObserver(
    (entries) => {
      if (!entries.some((entry) => entry.isIntersecting)) return;
      watch.disconnect();
      act();
    },
    { rootMargin: "100%" },
  );
  watch.observe(element);
};
