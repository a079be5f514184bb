// The page to which an authorization server sends the browser back. It hands the code to the console's API, as the
// session that began the login, and closes itself. The code is in the address only until this script has read it.
// Pages of this origin hear of the result on the channel "parley-console-login".

const MEMBERS = ["state", "code", "iss", "error", "error_description"];

const query = new URLSearchParams(location.search);
history.replaceState(null, "", location.pathname);

async function finish() {
  const api = new URL("../api/", location.href);
  const session = await fetch(new URL("session", api), { credentials: "same-origin" });
  if (!session.ok) throw new Error("The console does not answer.");
  const { csrf } = await session.json();
  const answer = Object.fromEntries([...query].filter(([name]) => MEMBERS.includes(name)));
  const reply = await fetch(new URL("agents/oauth", api), {
    method: "POST",
    credentials: "same-origin",
    headers: { "content-type": "application/json", "x-parley-csrf": csrf },
    body: JSON.stringify(answer),
  });
  const body = await reply.json();
  if (!reply.ok) throw new Error(body.error?.message ?? `The server replied with status ${reply.status}.`);
  return body;
}

function show(text) {
  document.getElementById("status").textContent = text;
}

function tell(message) {
  const channel = new BroadcastChannel("parley-console-login");
  channel.postMessage(message);
  channel.close();
}

try {
  const { agent } = await finish();
  tell({ agent, error: null });
  show("You are logged in. You can close this window.");
  window.close();
} catch (error) {
  tell({ agent: null, error: error.message });
  show(`The login failed: ${error.message}`);
}
