// Orders reports and shows how far they are. What was ordered in this tab is remembered through a reload.
const GLANCE = 400; // milliseconds between two looks
const FINAL = ["completed", "dead", "cancelled"];
const reports = new Map(JSON.parse(sessionStorage.getItem("reports") ?? "[]"));
const over = new Set();
const find = (id) => document.getElementById(id);

async function ask(path, options) {
  const answer = await fetch(path, options);
  if (!answer.ok) throw new Error(`${path}: ${answer.status}`);
  return answer.json();
}

async function order(event) {
  event.preventDefault();
  const month = find("month").value;
  const [, token = ""] = document.cookie.match(/csrftoken=(\w+)/) ?? []; // Django asks for it
  const { id } = await ask(`months/${encodeURIComponent(month)}/report`, {
    method: "POST",
    headers: { "X-CSRFToken": token },
  });
  reports.set(id, month);
  sessionStorage.setItem("reports", JSON.stringify([...reports]));
  await show(id);
}

async function show(id) {
  const job = await ask(`jobs/${id}`);
  const row = document.getElementById(id) ?? addRow(id);
  row.dataset.state = job.state;
  row.querySelector("progress").value = job.done / job.total;
  row.querySelector(".word").textContent = job.result ?? job.error ?? job.note ?? job.state;
  if (FINAL.includes(job.state)) over.add(id);
}

function addRow(id) {
  const row = find("report").content.cloneNode(true).firstElementChild;
  row.id = id;
  row.querySelector(".month").textContent = reports.get(id);
  row.querySelector("progress").setAttribute("aria-label", `report for ${reports.get(id)}`);
  find("reports").prepend(row);
  return row;
}

async function look() {
  try {
    for (const id of reports.keys()) if (!over.has(id)) await show(id);
    const counted = (await ask("stock")).find((job) => job.result);
    if (counted) find("stock").textContent = counted.result;
    find("away").hidden = true;
  } catch {
    find("away").hidden = false;
  }
  setTimeout(look, GLANCE);
}

find("order").addEventListener("submit", (event) => order(event).catch(() => (find("away").hidden = false)));
look();
