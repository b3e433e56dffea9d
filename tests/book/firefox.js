/* The moving figures in Firefox, moved by keyboard, and the page of runs; used by test_firefox.py.

   Reads {executable, pages, look} from its input; writes, for each page, its errors, what `look` (a function of
   a figure's stage, as text) returned after every key, and the number of drawings of runs. */

import { createRequire } from "node:module";
import { text } from "node:stream/consumers";

const { launch } = createRequire(new URL("../../book/scripts/", import.meta.url))("puppeteer-core");
const { executable, pages, look } = JSON.parse(await text(process.stdin));
const see = eval(`(${look})`); // a function: an expression in text would be returned, not called
const browser = await launch({ browser: "firefox", executablePath: executable, headless: true });
const answers = {};
for (const address of pages) {
  const page = await browser.newPage();
  const errors = [];
  const looks = [];
  page.on("pageerror", (error) => errors.push(String(error)));
  page.on("console", (message) => message.type() === "error" && errors.push(message.text()));
  await page.setViewport({ width: 1280, height: 900 });
  await page.goto(address);
  for (const figure of await page.$$("figure.wave")) {
    await figure.scrollIntoView();
    const stage = await figure.waitForSelector(".wave-stage:not([hidden])");
    for (const slider of await stage.$$("input[type=range]")) {
      await slider.focus();
      for (const key of ["ArrowRight", "Home", "End"]) {
        await page.keyboard.press(key);
        await page.evaluate(() => new Promise((done) => setTimeout(done, 350))); // longer than it glides
        looks.push(await stage.evaluate(see));
      }
    }
  }
  if (await page.$(".runs-stage")) await page.waitForSelector(".runs-results:not([aria-busy]) svg");
  const charts = (await page.$$(".runs-chart svg[role=img]")).length;
  answers[address] = { errors, looks, charts };
  await page.close();
}
await browser.close();
console.log(JSON.stringify(answers));
