// The form of one security scheme, for logging in at this server and at agents elsewhere.
// What is typed stays in the form until it is sent, and is forgotten afterwards.

import { useState } from "preact/hooks";
import { ApiError, messageOf } from "../api/http.ts";
import type { Scheme, SchemeField } from "../api/types.ts";
import { safeText, shortLine } from "../text/safe.ts";
import { Button, Checkbox, Problem, TextInput } from "../ui/index.ts";

/** What a scheme is called for people. */
export function schemeTitle(scheme: Scheme): string {
  const titles: Record<Scheme["kind"], string> = {
    http: scheme.scheme?.toLowerCase() === "basic" ? "User name and password" : "Token",
    api_key: "API key", oauth2: "OAuth", openid: "OpenID Connect", mutual_tls: "Client certificate",
  };
  return titles[scheme.kind] ?? shortLine(scheme.name, 40);
}

/** The fields of a scheme; those of the usual schemes if the server names none. */
export function fieldsOf(scheme: Partial<Scheme>): SchemeField[] {
  if (scheme.fields?.length) return scheme.fields;
  if (scheme.flow !== undefined && scheme.flow !== "form") return [];
  const field = (name: string, label: string, is_secret = true) => ({ name, label, is_secret, is_required: true });
  if (scheme.scheme?.toLowerCase() === "basic") return [field("username", "User name", false), field("password", "Password")];
  return scheme.kind === "api_key" ? [field("key", "API key")] : [field("token", "Token")];
}

export interface SchemeFormProps {
  scheme: Partial<Scheme>;
  /** The label of the button. */
  action?: string;
  /** The first field gets the focus. */
  autofocus?: boolean;
  /** Raises what went wrong; the form shows it. */
  onSubmit: (values: Record<string, string>, scopes: string[]) => Promise<void>;
}

export function SchemeForm({ scheme, action = "Log in", autofocus = false, onSubmit }: SchemeFormProps) {
  const [values, setValues] = useState<Record<string, string>>({});
  const [scopes, setScopes] = useState<readonly string[]>(() => Object.keys(scheme.scopes ?? {}));
  const [problem, setProblem] = useState<unknown>(null);
  const [isBusy, setBusy] = useState(false);
  if (scheme.flow === "unsupported") {
    return <p class="dim">{safeText(scheme.reason || "This page cannot log in with this scheme.")}</p>;
  }
  const fields = fieldsOf(scheme);
  const submit = async (event: Event) => {
    event.preventDefault();
    if (isBusy) return;
    setBusy(true);
    setProblem(null);
    try {
      await onSubmit(values, [...scopes]);
      setValues({});
    } catch (error) {
      setProblem(error);
    } finally {
      setBusy(false);
    }
  };
  const atFault = problem instanceof ApiError ? problem.path.replace("$.values.", "") : "";
  const allScopes = Object.entries(scheme.scopes ?? {});
  return (
    <form class="stack" onSubmit={submit}>
      {scheme.description && <p class="dim wrap">{safeText(scheme.description.slice(0, 2000))}</p>}
      {fields.map((field, index) => (
        <TextInput
          key={field.name} label={field.label} type={field.is_secret ? "password" : "text"} isRequired={field.is_required} isCode
          value={values[field.name] ?? ""} onInput={(value) => setValues({ ...values, [field.name]: value })}
          autofocus={autofocus && index === 0} error={field.name === atFault ? messageOf(problem) : undefined}
        />
      ))}
      {allScopes.length > 0 && (
        <fieldset class="scopes">
          <legend>Permissions to ask for</legend>
          {allScopes.slice(0, 100).map(([name, description]) => (
            <Checkbox
              key={name} checked={scopes.includes(name)}
              onChange={(isChosen) => setScopes(isChosen ? [...scopes, name] : scopes.filter((each) => each !== name))}
              label={<><code>{shortLine(name, 60)}</code> <span class="dim">{shortLine(description, 120)}</span></>}
            />
          ))}
        </fieldset>
      )}
      {problem !== null && !fields.some((field) => field.name === atFault) && <Problem error={problem} />}
      <div><Button kind="primary" type="submit" busy={isBusy && "Logging in…"}>{action}</Button></div>
    </form>
  );
}
