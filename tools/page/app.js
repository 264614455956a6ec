// Collects what is typed, asks tfcalc (worker.js), and shows what it returns. There is no formula, no rule and no word
// of an answer here: which controls there are, what a link means and what an answer says comes from the program.

const FIRST = "overview/llama-3-8b";
const PAUSE = 60; // milliseconds after a key or a slider
const MOVED = 100; // milliseconds in which a slider may go on, before what takes longer is asked for
const IDLE = 2000; // milliseconds without a question, after which the program may tidy up
const at = (id) => document.getElementById(id);

// --- the program

const base = new URL(".", location.href).href;
const waiting = new Map();
let calls = 0;
let worker = null;
let loaded = null;

function start() {
  // By a blob, so that the worker has this page's policy wherever it is served: it can reach nothing but these files.
  const code = `import ${JSON.stringify(new URL("worker.js", base).href)};`;
  worker = new Worker(URL.createObjectURL(new Blob([code], { type: "text/javascript" })), { type: "module" });
  const ready = new Promise((resolve, reject) => {
    waiting.set(0, { resolve, reject });
    worker.onerror = (event) => reject(new Error(event.message || "the worker did not start"));
  });
  worker.onmessage = ({ data }) => {
    const { resolve, reject } = waiting.get(data.id);
    waiting.delete(data.id);
    if (data.failed) reject(new Error(data.failed));
    else resolve(data);
  };
  return ready.then(() => call("load", base));
}

function call(name, ...args) {
  const id = ++calls;
  return new Promise((resolve, reject) => {
    waiting.set(id, { resolve, reject });
    worker.postMessage({ id, call: name, args });
  });
}

// --- one question after the other: of several that wait, the last one is asked. What is found at first sight is shown
// at once, what takes longer after it, and then the whole answer, unless there is another question by then.

let shown = null; // the question that is on the screen, with its answer unless it was refused
let answered = null; // the one whose answer is on the screen
let next = null;
let busy = false;
let idle = 0;
const changes = new Map(); // what has been changed since the answer on the screen was asked for, in order
const refusals = new Set(); // names of the options that were changed last, where the program refused it

async function ask(name, args, { push = true, tab = null } = {}) {
  clearTimeout(pause); // what was to be asked soon goes along, or is not asked any more
  if (name !== "changed") changes.clear();
  next = { name, args, push, tab };
  if (busy) return;
  busy = true;
  clearTimeout(idle);
  const slow = setTimeout(() => at("shown").setAttribute("aria-busy", "true"), 150);
  try {
    await loaded;
    let begun = null; // the question of which a sight is on the screen, and not yet the rest; which it `waits` for
    while (next) {
      const now = next;
      next = null;
      const sent = now.name === "changed" ? [...changes] : [];
      if (now.name === "changed" && !sent.length) {
        if (now.tab !== null) next = inTab(now.tab);
        continue;
      }
      if (now.name === "changed") now.args = [JSON.stringify(shown.words), ...sent.flat()];
      const sight = await call("sight", 1, now.name, ...now.args);
      if (next) continue;
      for (const [name, value] of sent) if (changes.get(name) === value) changes.delete(name);
      const seen = JSON.parse(sight.found);
      const refused = !seen.html && !seen.text;
      const unread = now.name === "pasted" && !seen.words; // the config is refused itself: the page stays as it is
      if (unread) pasting(seen.told);
      else show(seen, { ...now, sent }, sight.took);
      if (now.tab !== null && !refused) {
        next = inTab(now.tab);
        continue;
      }
      if (!refused) begun = seen.waits ? { ...now, waits: seen.waits } : null;
      if (!begun) continue;
      await new Promise((resolve) => setTimeout(resolve, MOVED));
      while (begun && !next) {
        const more = await call("sight", begun.waits, begun.name, ...begun.args);
        if (next) break;
        const answer = JSON.parse(more.found);
        if (refused && !unread) at("shown").innerHTML = answer.html; // of the question before
        else show(answer, { ...begun, push: false, further: true }, more.took);
        begun = answer.waits ? { ...begun, waits: answer.waits } : null;
      }
    }
    idle = setTimeout(() => call("tidy"), IDLE);
  } catch (error) {
    tell(String(error.message ?? error), true);
  } finally {
    busy = false;
    clearTimeout(slow);
    at("shown").setAttribute("aria-busy", "false");
  }
}

const inTab = (place) => ({ name: "ask", args: [shown.tabs[place].link], push: true, tab: null });

function tell(text, bad) {
  at("told").textContent = text;
  at("told").classList.toggle("bad", Boolean(bad));
}

function show(answer, { name, args, push, sent = [], further = false }, took) {
  const focused = document.activeElement;
  const inside = at("result").contains(focused);
  tell(answer.told, answer.exit > 1);
  const noted = document.documentElement.dataset;
  noted[answer.waits ? "seen" : "took"] = took.toFixed(1);
  if (!answer.waits) {
    noted.exit = answer.exit;
    noted.answers = Number(noted.answers ?? 0) + 1;
  }
  const refused = !answer.html && !answer.text;
  if (!refused || !answer.words) {
    at("shown").innerHTML = answer.html;
    if (answer.text) at("shown").append(Object.assign(document.createElement("pre"), { textContent: answer.text }));
    answered = refused ? null : answer;
  }
  outdated(refused, answer.link);
  if (name === "pasted" && at("config").open) at("config").close();
  if (refused && inside) at("told").focus();
  else if (inside && further) again(focused).focus({ preventScroll: true });
  else if (inside || (name === "pasted" && !further)) heading().focus();
  if (!answer.words) return;
  const before = shown;
  shown = answer;
  const line = at("line");
  const typing = document.activeElement === line && name !== "ask"; // of a link it is the command, whoever has the focus
  if (!typing || (name === "typed" && line.value === args[0])) line.value = answer.command;
  if (document.activeElement !== at("model")) at("model").value = answer.model;
  const hash = `#${answer.link}`;
  if (location.hash !== hash) history[push && before ? "pushState" : "replaceState"](null, "", hash);
  document.title = answer.command;
  drawTabs(answer.tabs);
  drawForm(answer, before, name === "changed");
  if (!refused || name !== "changed") refusals.clear();
  if (refused) for (const [option] of sent) refusals.add(option);
  for (const control of document.querySelectorAll("#model, #question [name]")) {
    if (refusals.has(control.name)) control.setAttribute("aria-invalid", "true");
    else control.removeAttribute("aria-invalid");
  }
  if (!at("origin").hidden && (!before || before.link !== answer.link)) close();
}

// Of a question that is refused there is no answer: that to the one before is below, and out of use.
function outdated(refused, link) {
  at("shown").classList.toggle("stale", refused);
  at("shown").inert = refused;
  at("earlier").hidden = !refused || !answered || answered.link === link;
  if (at("earlier").hidden) return;
  at("earlier-question").href = `#${answered.link}`;
  at("earlier-question").textContent = answered.command;
}

// Where the focus goes in an answer that is drawn anew: to its beginning, so that Tab goes on from there.
function heading() {
  const first = at("shown").querySelector("h2, pre");
  if (first) first.tabIndex = -1;
  return first ?? at("answer");
}

// A link that was in the answer before more of it was there.
const again = (link) => [...at("shown").querySelectorAll("a")].find((each) => each.isEqualNode(link)) ?? heading();

function drawTabs(tabs) {
  const nav = at("tabs");
  if (nav.children.length !== tabs.length) {
    nav.replaceChildren(...tabs.map((tab) => Object.assign(document.createElement("a"), { textContent: tab.label })));
  }
  tabs.forEach((tab, place) => {
    const link = nav.children[place];
    link.href = `#${tab.link}`;
    link.title = tab.title;
    if (tab.current && link.getAttribute("aria-current") !== "page") link.scrollIntoView({ block: "nearest", inline: "nearest" });
  });
  chosen(nav.children[tabs.findIndex((tab) => tab.current)]);
}

function chosen(link) {
  for (const each of at("tabs").children) each.removeAttribute("aria-current");
  link?.setAttribute("aria-current", "page");
}

function drawForm(answer, before, typing) {
  const form = at("question");
  const shape = (one) => one && one.shape + one.tabs.findIndex((tab) => tab.current);
  if (shape(answer) !== shape(before)) {
    const open = form.querySelector("details")?.open;
    const turned = form.contains(document.activeElement) && document.activeElement;
    const waiting = [...form.querySelectorAll("input:not([type=checkbox])")].filter((each) => changes.has(each.name));
    form.innerHTML = answer.form;
    for (const each of waiting) if (at(each.id)) at(each.id).value = each.value; // typed since, and asked for next
    if (open && form.querySelector("details")) form.querySelector("details").open = true;
    if (turned) (at(turned.id) ?? form.querySelector(`[name="${turned.name}"]`))?.focus(); // a rank goes with its switch
    return;
  }
  if (!answer.html && !answer.text) return; // refused: nothing is known of it that the controls could show
  const fresh = document.createElement("template");
  fresh.innerHTML = answer.form;
  for (const control of fresh.content.querySelectorAll("input, select")) {
    const old = form.querySelector(`#${CSS.escape(control.id)}`);
    if (!old || (typing && old === document.activeElement)) continue;
    if (changes.has(old.name) || changes.has(old.dataset.for)) continue; // what it is set to is asked for next
    if (control.type === "checkbox") old.checked = control.checked;
    else if (control.matches("select")) {
      const chosen = control.selectedIndex; // which changes as its options go
      old.replaceChildren(...control.childNodes);
      old.selectedIndex = chosen;
    } else old.value = control.value;
    if (control.placeholder) old.placeholder = control.placeholder;
  }
}

// --- what is typed, slid and chosen

let pause = 0;
function soon(action) {
  clearTimeout(pause);
  pause = setTimeout(action, PAUSE);
}
function changed(name, value) {
  changes.delete(name); // so that it is the last
  changes.set(name, value);
}
const send = () => shown?.words && changes.size && ask("changed", []);
const change = (name, value) => {
  changed(name, value);
  send();
};

at("question").addEventListener("input", ({ target }) => {
  if (target.type === "range") {
    const stop = target.dataset.stops.split(" ")[Number(target.value)];
    const text = target.parentElement.querySelector("input:not([type=range])");
    text.value = stop;
    target.setAttribute("aria-valuetext", stop);
    changed(target.dataset.for, stop);
    soon(send);
  } else if (target.type === "checkbox") change(target.name, target.checked);
  else {
    changed(target.name, target.value);
    soon(send);
  }
});
// What an input with a list has is selected, so that the first key shows the whole list again.
document.addEventListener("focusin", ({ target }) => target.list && target.select());
at("question").addEventListener("submit", (event) => event.preventDefault());
at("model").addEventListener("change", ({ target }) => target.value && change("model", target.value));
at("line").addEventListener("keydown", (event) => event.key === "Enter" && ask("typed", [event.target.value]));
addEventListener("popstate", ({ state }) => {
  const question = location.hash.slice(1) || FIRST; // back, or typed
  if (question !== shown?.link) ask("ask", [question], { push: false });
  else if (state?.trail) back(state.trail - 1);
  else if (!at("origin").hidden) close();
});

// --- a config that is pasted, chosen or dropped

// The dialog, with why the config in it was refused.
function pasting(told) {
  at("config-told").textContent = told;
  if (!at("config").open) at("config").showModal();
  at("config-text").focus();
}
at("paste").addEventListener("click", () => pasting(""));
at("config-file").addEventListener("change", async ({ target }) => {
  if (target.files[0]) at("config-text").value = await target.files[0].text();
});
at("config").addEventListener("submit", (event) => {
  if (event.submitter?.value === "cancel") return;
  event.preventDefault(); // it closes when there is an answer
  paste();
});
const paste = () => ask("pasted", [at("config-text").value, JSON.stringify(shown?.words ?? [])]);
addEventListener("dragover", (event) => event.preventDefault());
addEventListener("drop", async (event) => {
  event.preventDefault();
  if (!event.dataTransfer.files[0]) return;
  at("config-text").value = await event.dataTransfer.files[0].text();
  paste();
});

// --- a number that is clicked opens beside the answer

let trail = [];

document.addEventListener("click", (event) => {
  const link = event.target.closest("a[href^='#']");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
  if (link.classList.contains("skip")) return;
  event.preventDefault();
  const question = link.getAttribute("href").slice(1);
  const tab = [...at("tabs").children].indexOf(link);
  if (tab >= 0) chosen(link); // at once, as its answer may have to wait for the one before
  if (link.closest("#trail")) back(Number(link.dataset.place));
  else if (link.classList.contains("opens")) open(question, link.closest("#opened") ? trail : []);
  else if (tab >= 0 && shown?.words && changes.size) ask("changed", [], { tab }); // with what has just been typed
  else ask("ask", [question]);
});

async function open(question, before) {
  await loaded;
  const { found } = await call("ask", question);
  const answer = JSON.parse(found);
  trail = [...before, { question, answer, from: before.length ? null : document.activeElement }];
  history.pushState({ trail: trail.length }, ""); // the way back leads one step up, and not to another answer
  draw();
}

function draw() {
  const { answer } = trail.at(-1);
  at("origin").hidden = false;
  document.body.classList.add("opened");
  if (answer.html) at("opened").innerHTML = answer.html;
  else at("opened").textContent = answer.told;
  at("trail").replaceChildren(
    ...trail.map(({ question, answer: each }, place) => {
      const link = document.createElement("a");
      link.href = `#${question}`;
      link.dataset.place = place;
      link.textContent = each.words[1];
      if (place === trail.length - 1) link.setAttribute("aria-current", "step");
      return link;
    }),
  );
  at("opened").focus({ preventScroll: true });
  at("origin").scrollTop = 0;
}

function back(place) {
  if (place >= trail.length) return; // a step ahead of what is open
  trail = trail.slice(0, place + 1);
  draw();
}

function close() {
  const focused = document.activeElement;
  const from = trail[0]?.from;
  trail = [];
  const lost = focused === document.body || at("origin").contains(focused);
  at("origin").hidden = true;
  document.body.classList.remove("opened");
  if (lost && from) (from.isConnected ? from : again(from)).focus();
}
at("close").addEventListener("click", close);

// --- the options, which a narrow screen has room for beside the answer only while they are asked for

function options(open) {
  at("options").setAttribute("aria-expanded", open);
  document.documentElement.classList.toggle("asking", open);
}
const asking = () => at("options").getAttribute("aria-expanded") === "true";
at("options").addEventListener("click", () => options(!asking()));
addEventListener("keydown", (event) => {
  if (event.key !== "Escape" || at("config").open) return;
  if (!at("origin").hidden) close();
  else if (asking()) {
    if (at("question").contains(document.activeElement)) at("options").focus();
    options(false);
  }
});

// --- copies

let copies = 0;

document.querySelector(".share").addEventListener("click", async ({ target }) => {
  const kind = target.dataset.copy;
  if (!kind || !shown) return;
  const mine = ++copies;
  target.after(at("copied"));
  at("copied").textContent = "…";
  let text = kind === "link" ? location.href : shown.command;
  if (kind !== "link" && kind !== "command") {
    const { found } = await call("written", JSON.stringify(shown.words), kind);
    if (mine !== copies) return; // something else was to be copied since
    const written = JSON.parse(found);
    if (written.exit > 1) {
      at("copied").textContent = "";
      return tell(written.told, true);
    }
    text = written.text;
  }
  document.documentElement.dataset.copied = text;
  let done = true;
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    done = false;
  }
  at("copied").textContent = done ? "✓" : "";
  if (!done) {
    const pre = Object.assign(document.createElement("pre"), { textContent: text, tabIndex: 0 });
    at("shown").append(pre);
    getSelection().selectAllChildren(pre);
  }
  setTimeout(() => mine === copies && (at("copied").textContent = ""), 2000);
});

// --- the beginning

if (typeof WebAssembly !== "object" || typeof Worker !== "function") {
  tell("This browser has no WebAssembly, which this page needs; on the command line, pip install tfcalc gives the same answers.", true);
} else {
  const since = performance.now();
  tell("Loading tfcalc into this browser, once …");
  loaded = start().then(({ found }) => {
    const { version, offers } = JSON.parse(found);
    at("version").textContent = version;
    for (const [name, words] of Object.entries(offers)) {
      const list = Object.assign(document.createElement("datalist"), { id: `offers-${name}` });
      list.append(...words.map((word) => Object.assign(document.createElement("option"), { value: word })));
      at("lists").append(list);
    }
    document.documentElement.dataset.loaded = (performance.now() - since).toFixed(0);
  });
  ask("ask", [location.hash.slice(1) || FIRST], { push: false });
  navigator.serviceWorker?.register("sw.js").catch(() => {});
}
