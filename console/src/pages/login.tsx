// The login: the schemes of this server as forms. It says why a one-time link did not work, and where tokens come from.

import { useEffect, useState } from "preact/hooks";
import { logIn, session, wantsLogin } from "../api/session.ts";
import { reconnectNow } from "../api/stream.ts";
import { linkProblem } from "../app.tsx";
import { SchemeForm, schemeTitle } from "../login/scheme_form.tsx";
import { setTitle } from "../router.ts";
import { shortLine } from "../text/safe.ts";
import { Icon, Tabs } from "../ui/index.ts";

export default function LoginPage() {
  const now = session.value!;
  const [chosen, choose] = useState(now.schemes[0]?.name ?? "");
  useEffect(() => setTitle("Login"), []);
  const scheme = now.schemes.find((each) => each.name === chosen) ?? now.schemes[0];
  const submit = async (values: Record<string, string>) => {
    await logIn(scheme!.name, values);
    linkProblem.value = "";
    reconnectNow();
  };
  const form = scheme && <SchemeForm key={scheme.name} scheme={scheme} autofocus onSubmit={submit} />;
  return (
    <main class="alone" id="main" tabIndex={-1}>
      <div class="alone-head">
        <span class="brand-mark" aria-hidden="true">P</span>
        <div>
          <h1 id="page-title" tabIndex={-1}>Log in to {shortLine(now.server.name || "Parley", 60)}</h1>
          <p class="dim small">{shortLine(now.server.url, 100)}</p>
        </div>
      </div>
      {linkProblem.value && <p class="note note-waiting" role="alert"><Icon name="warning" />{linkProblem.value}</p>}
      {now.schemes.length > 1 ? (
        <Tabs
          label="How to log in" selected={scheme!.name} onSelect={choose}
          tabs={now.schemes.map((each) => ({ id: each.name, title: schemeTitle(each) }))}
        >
          {form}
        </Tabs>
      ) : form ?? <p>The server asks for a login, but offers no way that works in a browser.</p>}
      {!now.needs_login && <p><button type="button" class="link" onClick={() => (wantsLogin.value = false)}>Go on without a login</button></p>}
      {now.server.kind === "host" && (
        <p class="dim small">
          <code>parley up</code> prints a link that logs you in, at every start, and the file that holds the admin token. A tenant's
          token was shown when the tenant was created; <code>parley admin tenants rotate-token</code> makes another.
        </p>
      )}
    </main>
  );
}
