// Opens a session with the secret of the link, then lists the routes. The secret is in the fragment, which is never sent.

const state = document.getElementById("state");
const secret = new URLSearchParams(location.hash.slice(1)).get("t");

async function open() {
  if (!secret) return;
  history.replaceState(null, "", "/");
  const answer = await fetch("/session", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ token: secret }),
  });
  if (!answer.ok) {
    const { message, hint } = (await answer.json()).error;
    throw new Error(hint ? `${message}; ${hint}` : message);
  }
}

async function list() {
  const answer = await fetch("/openapi.json");
  if (answer.status === 401) throw new Error("This page is opened by a link: run ormahctl web");
  const described = await answer.json();
  for (const [path, methods] of Object.entries(described.paths)) {
    for (const [method, operation] of Object.entries(methods)) {
      const row = document.createElement("tr");
      for (const text of [method.toUpperCase(), path, operation.summary || ""]) {
        row.append(Object.assign(document.createElement("td"), { textContent: text }));
      }
      document.getElementById("rows").append(row);
    }
  }
  state.textContent = `Version ${described.info.version}, at ${location.host}`;
  document.getElementById("routes").hidden = false;
}

try {
  await open();
  await list();
} catch (error) {
  state.textContent = error.message;
}
