// The dashboard's own script, with no library: pages work without it, with it they stay up to date by themselves.
// In this order: times, morphing, live updates, forms, small helps (copying, theme, keys, pointing at charts).
"use strict";

const body = document.body;
const prefix = body.dataset.prefix;
const byId = (id) => document.getElementById(id);

// ── times: absolute in the reader's zone, with their distance in words ───────────────────────────

const language = document.documentElement.lang;
const distance = new Intl.RelativeTimeFormat(language, { numeric: "auto", style: "short" });
const formats = {
  clock: new Intl.DateTimeFormat(language, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" }),
  short: new Intl.DateTimeFormat(language, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" }),
  day: new Intl.DateTimeFormat(language, { month: "short", day: "numeric" }),
  full: new Intl.DateTimeFormat(language, { dateStyle: "medium", timeStyle: "long", hourCycle: "h23" }),
};
const units = [["day", 86400], ["hour", 3600], ["minute", 60], ["second", 1]];

function ago(at, now) {
  const seconds = (at - now) / 1000;
  const [unit, length] = units.find(([, size]) => Math.abs(seconds) >= size) || units[3];
  return distance.format(Math.round(seconds / length), unit);
}

const zones = new Map();
function zoned(at, zone) {
  const precise = at.getUTCSeconds() ? { second: "2-digit" } : {};
  const key = zone + Object.keys(precise);
  if (!zones.has(key)) {
    const day = { weekday: "short", year: "numeric", month: "short", day: "numeric" };
    const clock = { hour: "2-digit", minute: "2-digit", hourCycle: "h23", ...precise };
    zones.set(key, new Intl.DateTimeFormat(language, { ...day, ...clock, timeZone: zone }));
  }
  return `${zones.get(key).format(at)} ${zone}`;
}

function told(at, form, now) {
  const today = at.toDateString() === now.toDateString();
  const dated = (format) => (today ? format.format(at) : `${formats.day.format(at)} ${format.format(at)}`);
  if (form === "ago") return ago(at, now);
  if (form === "next") return ago(at < now && now - at < 60e3 ? now : at, now);
  if (form === "clock") return dated(formats.clock);
  if (form === "short") return now - at > 26 * 3600e3 ? dated(formats.short) : formats.short.format(at);
  return `${dated(formats.clock)} (${ago(at, now)})`;
}

// Times in a sentence that comes as a text.
const MOMENT = /\b20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(Z|[+-]\d\d:\d\d)/g;
function withTimes(text) {
  const spoken = (each) => (Number.isNaN(Date.parse(each)) ? each : told(new Date(each), "both", new Date()));
  return text.replace(MOMENT, spoken);
}

function tellTimes(root) {
  const now = new Date();
  for (const each of root.querySelectorAll("time[datetime]")) {
    const at = new Date(each.dateTime);
    if (Number.isNaN(at.getTime())) continue;
    const text = each.dataset.zone ? zoned(at, each.dataset.zone) : told(at, each.dataset.form, now);
    if (each.textContent !== text) each.textContent = text;
    if (!each.title) each.title = formats.full.format(at);
  }
}

// ── morphing: what is on the page becomes what came, and what did not change stays as it is ──────
// So focus, selection, open details, what was typed and where one has scrolled to are kept.

// By attribute: `id` of a form that has a field of this name is the field.
const keyOf = (node) => (node.nodeType === 1 && (node.getAttribute("id") || node.getAttribute("data-key"))) || "";
const alike = (a, b) => a.nodeType === b.nodeType && a.nodeName === b.nodeName && keyOf(a) === keyOf(b);

function wasTyped(field) {
  if (field === document.activeElement) return true;
  if (field.type === "checkbox" || field.type === "radio") return field.checked !== field.defaultChecked;
  return "defaultValue" in field && field.value !== field.defaultValue;
}

function morph(old, fresh) {
  if (old.nodeType !== 1) {
    if (old.nodeValue !== fresh.nodeValue) old.nodeValue = fresh.nodeValue;
    return;
  }
  if (old.hasAttribute("data-keep")) return;
  if (old.nodeName === "TIME" && old.getAttribute("datetime") === fresh.getAttribute("datetime")) return;
  if (/^(INPUT|TEXTAREA|SELECT)$/.test(old.nodeName) && wasTyped(old)) return;
  morphAttributes(old, fresh);
  morphChildren(old, fresh);
}

function morphAttributes(old, fresh) {
  const ours = (name) => name === "open" || name === "hidden";
  for (const { name, value } of fresh.attributes) {
    if (!ours(name) && old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  for (const { name } of [...old.attributes]) {
    if (!ours(name) && !fresh.hasAttribute(name)) old.removeAttribute(name);
  }
}

function morphChildren(old, fresh) {
  const keyed = new Map();
  for (const child of old.childNodes) if (keyOf(child)) keyed.set(keyOf(child), child);
  let place = old.firstChild;
  for (const wanted of [...fresh.childNodes]) {
    const key = keyOf(wanted);
    const known = key ? keyed.get(key) : place;
    if (known && alike(known, wanted) && (key || !keyOf(known))) {
      if (known === place) place = place.nextSibling;
      else old.insertBefore(known, place);
      morph(known, wanted);
    } else {
      old.insertBefore(wanted, place);
    }
  }
  while (place) {
    const next = place.nextSibling;
    place.remove();
    place = next;
  }
}

function show(html) {
  const fresh = new DOMParser().parseFromString(html, "text/html");
  if (!fresh.getElementById("main")) return;
  const spot = spotOf(document.activeElement);
  document.title = fresh.title;
  for (const id of ["verdict", "nav", "main"]) {
    const [old, wanted] = [byId(id), fresh.getElementById(id)];
    if (old && wanted) morph(old, document.importNode(wanted, true));
  }
  freshen(byId("main"));
  keepFocus(spot);
}

// What is pressed may be replaced by something else at the same spot, such as Pause by Resume.
const spotOf = (node) => {
  const asks = node?.closest?.("[popover]");
  const button = asks ? document.querySelector(`[popovertarget="${CSS.escape(asks.id)}"][data-spot]`) : node?.closest?.("[data-spot]");
  return button?.dataset.spot;
};

function keepFocus(spot) {
  if (!spot || (document.activeElement && document.activeElement !== body)) return;
  (document.querySelector(`[data-spot="${CSS.escape(spot)}"]`) || byId("main")).focus({ preventScroll: true });
}

function freshen(root) {
  tellTimes(root);
  for (const each of root.querySelectorAll("[data-copy]")) each.hidden = false;
}

// ── live updates: by a stream of events, or by asking now and again where there is none ──────────

const ASK_AGAIN = 5000;
const RETRY_STREAM = 30000;
const pause = byId("pause");
const at = encodeURIComponent(body.dataset.at);
let stream = null;
let asking = 0;
let paused = false;
let held = null; // a frame that waits until nobody selects text

const selecting = () => {
  const chosen = document.getSelection();
  return chosen && !chosen.isCollapsed && byId("main").contains(chosen.anchorNode);
};

function take(html) {
  if (paused || selecting()) held = html;
  else show(html);
}

async function askOnce() {
  try {
    const answer = await fetch(`${prefix}/frame?at=${at}`, { headers: { Accept: "text/html" } });
    if (answer.redirected || answer.status === 401) location.reload();
    else if (answer.ok) take(await answer.text());
  } catch {
    // the server is away: the next question comes soon
  }
}

function watch() {
  stop();
  if (paused || document.hidden) return;
  stream = new EventSource(`${prefix}/live?at=${at}`);
  stream.addEventListener("frame", (event) => {
    stopAsking();
    take(event.data);
  });
  stream.addEventListener("end", () => {
    stop();
    location.reload();
  });
  stream.addEventListener("error", () => {
    if (!asking) asking = setInterval(askOnce, ASK_AGAIN);
    if (stream && stream.readyState === EventSource.CLOSED) setTimeout(() => { if (asking && !paused) watchAgain(); }, RETRY_STREAM);
  });
}

function watchAgain() {
  if (stream) stream.close();
  const before = asking;
  stream = null;
  watch();
  if (before && !asking) asking = setInterval(askOnce, ASK_AGAIN);
}

function stopAsking() {
  clearInterval(asking);
  asking = 0;
}

function stop() {
  if (stream) stream.close();
  stream = null;
  stopAsking();
}

function setPaused(value) {
  paused = value;
  pause.setAttribute("aria-pressed", String(paused));
  pause.title = paused ? body.dataset.paused : body.dataset.watching;
  if (paused) return stop();
  if (held) show(held);
  held = null;
  watch();
}

if (pause) {
  pause.hidden = false;
  pause.addEventListener("click", () => setPaused(!paused));
  document.addEventListener("visibilitychange", () => (document.hidden ? stop() : watch()));
  document.addEventListener("selectionchange", () => {
    if (held && !paused && !selecting()) {
      show(held);
      held = null;
    }
  });
  addEventListener("pagehide", stop);
  addEventListener("pageshow", (event) => { if (event.persisted) watch(); });
  watch();
}

// ── forms: sent without leaving the page; what was done is said in a corner ──────────────────────

const SAID = "standfast-said"; // what the next page is to say

function toast(text, bad) {
  const note = document.createElement("p");
  const dot = document.createElement("span");
  note.className = bad ? "toast bad" : "toast";
  dot.className = "dot";
  const dismiss = document.createElement("button");
  dismiss.type = "button";
  dismiss.textContent = "×";
  dismiss.setAttribute("aria-label", body.dataset.dismiss);
  dismiss.addEventListener("click", () => note.remove());
  note.append(dot, withTimes(text), dismiss);
  byId("toasts").append(note);
  setTimeout(() => note.remove(), bad ? 20000 : 8000);
}

function go(to, said) {
  sessionStorage.setItem(SAID, JSON.stringify(said));
  location.assign(to);
}

if (byId("toasts") && sessionStorage.getItem(SAID)) {
  const said = JSON.parse(sessionStorage.getItem(SAID));
  sessionStorage.removeItem(SAID);
  toast(said.text, said.bad);
}

// What is wrong with a form that lies above the page is said in it; else in the corner.
function complain(form, text) {
  const place = form.closest("[popover]:popover-open") && form.querySelector(".problem");
  if (!place) return toast(text, true);
  place.textContent = text;
  place.hidden = false;
}

async function send(form, button) {
  const fields = new URLSearchParams(new FormData(form, button));
  const buttons = [...form.querySelectorAll("button")];
  const spot = spotOf(button);
  const problem = form.querySelector(".problem");
  if (problem) problem.hidden = true;
  for (const each of buttons) each.disabled = true;
  try {
    let said;
    do { // what takes longer than one call goes on, confirmed once, for as long as this page is open
      const answer = await fetch(form.getAttribute("action"), { method: "POST", body: fields, headers: { Accept: "application/json" } });
      if (answer.redirected || !(answer.headers.get("content-type") || "").includes("json")) return location.reload();
      said = await answer.json();
      if (said.bad) return complain(form, said.text);
      if (said.again) {
        fields.set("goes_on", said.again);
        const place = form.querySelector(".so-far");
        if (place) place.textContent = said.text;
      }
    } while (said.again);
    form.closest("[popover]")?.hidePopover();
    form.reset();
    const here = prefix + body.dataset.at;
    if (said.to && said.to !== here) return go(said.to, said);
    toast(said.text, false);
    await askOnce();
  } catch {
    complain(form, body.dataset.unsent);
  } finally {
    for (const each of buttons) each.disabled = false;
    if (button?.isConnected && document.activeElement === body && button.checkVisibility()) button.focus();
    keepFocus(spot);
  }
}

document.addEventListener("toggle", (event) => {
  const problem = event.newState === "closed" && event.target.querySelector?.(".problem");
  if (problem) problem.hidden = true;
}, true);

document.addEventListener("submit", (event) => {
  const form = event.target;
  if (form.method !== "post" || form.classList.contains("plain") || !byId("toasts")) return;
  event.preventDefault();
  send(form, event.submitter);
});

document.addEventListener("submit", (event) => {
  // an address without empty fields is one to share
  if (event.target.method !== "get") return;
  for (const field of event.target.elements) if (field.name && !field.value) field.disabled = true;
  setTimeout(() => { for (const field of event.target.elements) field.disabled = false; });
});

// ── small helps ──────────────────────────────────────────────────────────────────────────────────

document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  event.preventDefault();
  await navigator.clipboard.writeText(button.dataset.copy);
  toast(body.dataset.copied, false);
});

document.addEventListener("pointerover", (event) => {
  const column = event.target.closest?.(".column");
  const figure = event.target.closest?.(".chart");
  if (!figure) return;
  const words = column ? column.querySelector("title").textContent : "";
  const when = column ? formats.short.format(new Date(column.dataset.at)) : "";
  figure.querySelector(".readout").textContent = words && `${when} · ${words}`;
});

const theme = byId("theme");
if (theme) {
  theme.hidden = false;
  theme.addEventListener("click", () => {
    const root = document.documentElement;
    const dark = root.classList.contains("dark") || (!root.classList.contains("light") && matchMedia("(prefers-color-scheme: dark)").matches);
    root.classList.remove("dark", "light");
    root.classList.add(dark ? "light" : "dark");
    localStorage.setItem("standfast-theme", dark ? "light" : "dark");
  });
}

const places = { o: "/", j: "/jobs", d: "/dead", q: "/queues", s: "/schedules", w: "/workers", t: "/tasks", l: "/locks", i: "/incidents", f: "/alerts", b: "/objectives", a: "/audit" };
let going = 0;
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  const typing = /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.nodeName);
  if (event.key === "Escape" && typing && event.target.id === "find") return event.target.blur();
  if (typing) return;
  if (event.key === "/" && byId("find")) {
    event.preventDefault();
    byId("find").focus();
  } else if (event.key === "g") {
    going = Date.now();
  } else if (Date.now() - going < 1200 && places[event.key]) {
    location.assign(prefix + places[event.key]);
  }
});

freshen(document);
if (matchMedia("(max-width: 800px)").matches) {
  document.querySelector("#nav [aria-current]")?.scrollIntoView({ inline: "center", block: "nearest" });
}
setInterval(() => { if (!document.hidden) tellTimes(document); }, 1000);
