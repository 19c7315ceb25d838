// Makes the page quick: links and forms fetch the whole page of their address and morph what differs. Without this script
// every address can still be read. Answers are parsed once, as nodes; nothing is ever put in as a string.

const policy = window.trustedTypes?.createPolicy("ormah", { createHTML: (text) => text }) ?? { createHTML: (text) => text };
const CLOSED = "Ormah's page was closed. Run: ormahctl web";
const bar = document.getElementById("live");
const main = document.getElementById("main");
const find = document.querySelector("#find input");
let going = null; // the AbortController of the fetch that will be shown
let cursor = -1;
let before = ""; // the key that came before, of two such as `g t`

let here = location.href; // the address that is shown
let lost = ""; // why the page is not live, until it is again

function say(text) {
  if (!bar) return;
  bar.textContent = text || lost;
  bar.classList.toggle("lost", Boolean(lost) && !text);
}

function lose(why) {
  lost = why;
  say("");
}

/** Whether a form holds what the daemon does not know yet. */
function touched(form) {
  return [...form.elements].some((one) => {
    if (one.options) return one.selectedIndex !== Math.max(0, [...one.options].findIndex((option) => option.defaultSelected));
    return one.matches("input, textarea") && (one.value !== one.defaultValue || one.checked !== one.defaultChecked);
  });
}

/** Whether the person may leave: nothing typed would be lost, or it may be. */
function mayLeave() {
  return ![...main.querySelectorAll("form[method=post]")].some(touched) || confirm("Leave without saving what you typed?");
}

// ------------------------------------------------------------ getting and showing pages

/** Fetch an address, morph the page into it, and return true; not if another one came in between. `sent`: the form that asks; `live`: the same view again, by itself; `y`: how far it was scrolled. */
async function show(url, { method = "GET", body, push = true, scroll = true, sent, live = false, y } = {}) {
  if (!live && method === "GET" && !mayLeave()) return push || history.pushState(null, "", here);
  going?.abort();
  const mine = (going = new AbortController());
  let answer, text;
  try {
    answer = await fetch(url, { method, body, headers: { "X-Ormah-Part": "main", Accept: "text/html" }, signal: mine.signal });
    text = await answer.text();
  } catch (error) {
    if (mine !== going) return;
    going = null;
    return lose(CLOSED);
  }
  if (mine !== going) return;
  going = null;
  const page = new DOMParser().parseFromString(policy.createHTML(text), "text/html");
  if (!page.getElementById("rail")) return lose(CLOSED);
  if (lost === CLOSED) lost = "";
  if (live && (!main.dataset.live || page.querySelector("main[data-error^='5']"))) return;
  const address = new URL(answer.url);
  address.hash = new URL(url, location.href).hash;
  const same = address.pathname === location.pathname;
  if (push && address.href !== location.href) {
    history.replaceState({ y: scrollY }, "");
    history.pushState(null, "", address);
  }
  here = location.href;
  document.title = page.title;
  const known = new Set(rows().map((one) => one.id));
  const chosen = rows()[cursor];
  const stays = (node) => node.localName === "form" && node !== sent && touched(node) && (live || (same && node.getAttribute("method") === "post"));
  for (const id of ["rail", "main"]) {
    Idiomorph.morph(document.getElementById(id), page.getElementById(id), {
      ignoreActiveValue: Boolean(document.activeElement?.matches("input, textarea, select")), // else <main> with focus would stay whole
      callbacks: {
        beforeAttributeUpdated: (name, node) => !(live && name === "class" && node.classList.contains("fresh")) && !(name === "open" && (node.localName === "details" || (live && node.localName === "dialog"))),
        beforeNodeMorphed: (node) => !stays(node),
        beforeNodeRemoved: (node) => !(live && [node, ...(node.querySelectorAll?.("form") ?? [])].some(stays)),
      },
    });
  }
  if (live) return renew(known, chosen);
  const wanted = page.querySelector("#find input");
  if (document.activeElement !== find && wanted && !typed) find.value = wanted.getAttribute("value");
  say("");
  point(-1);
  const target = address.hash && document.getElementById(address.hash.slice(1));
  if (target) target.scrollIntoView({ block: "nearest" });
  else if (scroll || y !== undefined) window.scrollTo(0, y ?? 0);
  const first = document.querySelector("main [data-focus]");
  if (first && scroll) first.focus();
  enliven();
  return true;
}

// A view with a script of its own names it; the others do not load it.
async function enliven() {
  const view = document.querySelector("main [data-module]");
  if (view) (await import(view.dataset.module)).start();
}
enliven();

function plain(event) {
  return event.button === 0 && !(event.metaKey || event.ctrlKey || event.shiftKey || event.altKey);
}

document.addEventListener("click", (event) => {
  const copy = event.target.closest("[data-copy]");
  if (copy) {
    navigator.clipboard.writeText(copy.dataset.copy).then(() => say(`Copied: ${copy.dataset.copy}`));
    return;
  }
  const dialog = event.target.closest("[data-dialog]");
  if (dialog) return document.getElementById(dialog.dataset.dialog).showModal();
  const link = event.target.closest("a[href]");
  if (!link || !plain(event) || link.origin !== location.origin || link.getAttribute("href").startsWith("#")) return;
  event.preventDefault();
  link.closest("dialog")?.close();
  show(link.href);
});

document.addEventListener("submit", (event) => {
  const form = event.target;
  const [method, action] = [form.getAttribute("method"), form.getAttribute("action")]; // a field may be named `action`
  if (method === "dialog") return;
  event.preventDefault();
  const body = new URLSearchParams(new FormData(form, event.submitter));
  form.closest("dialog")?.close();
  if (method === "post") return show(action, { method: "POST", body, sent: form });
  for (const [name, value] of [...body]) if (!value) body.delete(name, value);
  show(`${action}?${body}`);
  if (form.id === "find") find.blur();
});

window.addEventListener("popstate", (event) => show(location.href, { push: false, scroll: false, y: event.state?.y }));
window.addEventListener("beforeunload", (event) => {
  if ([...main.querySelectorAll("form[method=post]")].some(touched)) event.preventDefault();
});

// ------------------------------------------------------------ search as one types, and chips

let searching = false;
let typed = false; // whether the query changed while it was searched for
document.addEventListener("input", (event) => {
  if (event.target === find) {
    search();
  } else if (event.target.closest(".chips") && event.target.matches("select, [type=checkbox], [type=date]")) {
    if (event.target.type === "date" && event.target.value && event.target.value < "2000") return; // a year that is being typed
    event.target.form.requestSubmit();
  }
});

/** Search at once. What is typed until the answer is there is searched for then: one search at a time. */
async function search() {
  typed = true;
  if (searching) return;
  searching = true;
  for (let shown = true; typed && shown; ) {
    typed = false;
    const push = location.pathname !== "/search";
    const query = new URLSearchParams(push ? "" : location.search);
    query.delete("page");
    if (find.value) query.set("q", find.value);
    else query.delete("q");
    const address = `/search?${query}`;
    if (!push) history.replaceState(null, "", address);
    shown = await show(address, { push }); // not if the person went elsewhere meanwhile
  }
  searching = false;
}

// ------------------------------------------------------------ keys

function rows() {
  return [...document.querySelectorAll("main .rows > li, main .hits > li, main .turns > li, main .item")];
}

function point(at) {
  const all = rows();
  for (const one of document.querySelectorAll(".cursor")) one.classList.remove("cursor");
  cursor = Math.min(at, all.length - 1);
  if (cursor < 0) return;
  all[cursor].classList.add("cursor");
  all[cursor].scrollIntoView({ block: "nearest" });
  all[cursor].querySelector("a.what, .what a, h2 a, a, button")?.focus({ preventScroll: true });
}

function press(key) {
  const place = rows()[cursor] ?? document.querySelector("main");
  const named = (root) => [...root.querySelectorAll("[data-key]")].find((one) => one.dataset.key === key);
  const found = named(place) ?? (cursor < 0 ? undefined : named(document.querySelector("main")));
  found?.click();
  return Boolean(found);
}

document.addEventListener("keydown", (event) => {
  const typing = event.target.closest("input, textarea, select, dialog[open]");
  if (event.key === "k" && (event.ctrlKey || event.metaKey)) {
    event.preventDefault();
    return find?.select();
  }
  if (event.key === "Escape" && typing) {
    if (event.target === find) event.preventDefault(); // or the browser empties it, below results that stay
    return event.target.blur();
  }
  if (typing || event.ctrlKey || event.metaKey || event.altKey || !find) return;
  const last = before;
  before = event.key === "g" && last !== "g" ? "g" : "";
  let done = true;
  if (last === "g") document.querySelector(`[data-go="${CSS.escape(event.key)}"]`)?.click();
  else if (event.key === "/") find.select();
  else if (event.key === "?") document.getElementById("keys").showModal();
  else if (event.key === "j") point(cursor + 1);
  else if (event.key === "k") point(Math.max(0, cursor - 1));
  else if (event.key === "Escape" && cursor >= 0) point(-1);
  else if (event.key === "Escape" && location.pathname !== "/") history.back();
  else done = before === "g" || press(event.key);
  if (done) event.preventDefault();
});

// ------------------------------------------------------------ what takes long says what is being done

function saying(event) {
  const found = event.target.closest(event.type === "submit" ? "form[data-says]" : "a[data-says]");
  if (found) say(found.dataset.says);
}
document.addEventListener("submit", saying);
document.addEventListener("click", saying);

// ------------------------------------------------------------ live: after an event the view is asked for again

const REST = 300; // milliseconds from an event to the request
const QUIET = 30_000; // milliseconds without a message, after which the page is not live
const FRESH = 4_000; // milliseconds for which a row that came is marked
let socket = null;
let begun = 0; // when the socket was asked for
let heard = Date.now(); // when the last message came
let last = ""; // the id of the last event
let due = null; // the timer of the next request
let took = 0; // milliseconds that the last request took

/** After the view was morphed: the cursor stays at its row, and rows that came are marked and announced. */
function renew(known, chosen) {
  cursor = rows().indexOf(chosen);
  if (cursor >= 0) chosen.classList.add("cursor");
  const came = known.size ? rows().filter((one) => one.id && !known.has(one.id)) : [];
  if (!came.length) return;
  for (const one of came) one.classList.add("fresh");
  setTimeout(() => came.forEach((one) => one.classList.remove("fresh")), FRESH);
  const more = came.length > 1 ? ` and ${came.length - 1} more` : "";
  document.getElementById("news").textContent = `New: ${came[0].querySelector(".what, h2")?.textContent.trim() ?? ""}${more}`;
}

function refresh() {
  due ??= setTimeout(again, Math.max(REST, Math.min(4 * took, 10 * REST)));
}

async function again() {
  due = null;
  if (going) return refresh(); // the person is on the way to another view
  const from = performance.now();
  if (!document.hidden) await show(location.href, { push: false, live: true });
  took = performance.now() - from;
}

function concerns(event) {
  const { live = "", node } = main.dataset;
  return live.split(" ").includes(event.event) && (event.event !== "whisper" || !node || Boolean(event.nodes?.includes(node)));
}

function listen() {
  const mine = (socket = new WebSocket(`ws://${location.host}/ui/ws${last && `?after=${last}`}`));
  let answered = false;
  begun = Date.now();
  mine.onmessage = ({ data }) => {
    const event = JSON.parse(data);
    if (!answered || concerns(event)) refresh(); // the first message is the reply; what came before it may be missed
    answered = true;
    heard = Date.now();
    last = event.id ?? event.last ?? last;
    if (lost) lose("");
  };
  mine.onclose = () => {
    if (mine !== socket) return;
    socket = null;
    setTimeout(() => socket ?? listen(), answered ? 1_000 : 3_000);
    if (!answered) refresh(); // it finds out whether the gateway is there
  };
}

/** Say that the page is not live, and give up a socket that is silent. */
function look() {
  const now = Date.now();
  if (now - heard > QUIET && !lost) lose(`Not live since ${new Date(heard).toTimeString().slice(0, 5)}`);
  if (!socket || now - Math.max(heard, begun) < (heard > begun ? QUIET : QUIET / 3)) return;
  const old = socket;
  listen();
  old.close();
}

if (find) {
  listen();
  setInterval(look, 1_000);
  document.addEventListener("visibilitychange", () => document.hidden || refresh());
}

// ------------------------------------------------------------ the link that opens the page

const secret = new URLSearchParams(location.hash.slice(1)).get("t");
if (secret) {
  history.replaceState(null, "", "/");
  const answer = await fetch("/session", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ token: secret }),
  });
  if (answer.ok) location.reload();
  else {
    const { message, hint } = (await answer.json()).error;
    say(hint ? `${message}; ${hint}` : message);
  }
}
