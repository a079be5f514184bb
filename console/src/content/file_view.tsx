// Files in messages and artifacts: pictures shown, text on demand, everything else with its size and a way to save it.
// Nothing is loaded from elsewhere by the browser: a file that an agent names by URL is fetched by the server.

import { useEffect, useMemo, useState } from "preact/hooks";
import { API, errorOf, request, withQuery } from "../api/http.ts";
import type { Part } from "../a2a/types.ts";
import { bytesText, shortLine } from "../text/safe.ts";
import { Button, Icon, toastError } from "../ui/index.ts";
import { Code } from "./code.tsx";
import {
  decodeBase64, fileName, isPicture, isTooLargePicture, mediaTypeOf, saveAs, sizeOfBase64,
} from "./file_bytes.ts";
import { SafeLink } from "./markdown.tsx";

/** Bytes of a file that are shown as text. */
const MAX_TEXT = 200_000;

const TEXT_TYPES = /^(?:text\/.*|application\/(?:json|xml|yaml|javascript|toml|.*\+(?:json|xml)))$/;

/** A part with bytes. */
export function FileView({ part }: { part: Part }) {
  const raw = part.raw ?? "";
  const size = sizeOfBase64(raw);
  const name = shortLine(part.filename ?? "", 100) || "File without a name";
  const [isShown, setShown] = useState(false);
  const isText = TEXT_TYPES.test(mediaTypeOf(part.mediaType)) && size <= MAX_TEXT;
  function save() {
    const pieces = decodeBase64(raw);
    if (pieces) saveAs(pieces, fileName(part.filename, part.mediaType));
    else toastError("The agent sent a file that is not valid base64.");
  }
  return (
    <div class="file">
      {isPicture(part.mediaType, size) && <Picture raw={raw} type={mediaTypeOf(part.mediaType)} name={name} />}
      <div class="file-bar">
        <Icon name="file" />
        <span class="file-name"><bdi>{name}</bdi></span>
        <span class="dim">{shortLine(part.mediaType ?? "", 60) || "unknown type"}, {bytesText(size)}</span>
        {isText && <Button kind="quiet" small onClick={() => setShown(!isShown)}>{isShown ? "Hide text" : "Show text"}</Button>}
        <Button kind="quiet" small icon="download" onClick={save}>Save</Button>
      </div>
      {isShown && <TextOfFile raw={raw} name={part.filename ?? ""} />}
    </div>
  );
}

function TextOfFile({ raw, name }: { raw: string; name: string }) {
  const text = useMemo(() => new TextDecoder().decode(decodeBase64(raw)?.[0] ?? new Uint8Array()), [raw]);
  return <Code text={text} language={/\.(\w{1,10})$/.exec(name)?.[1] ?? ""} />;
}

/** A picture from bytes, through a blob: URL that lives as long as the picture is shown. */
function Picture({ raw, type, name }: { raw: string; type: string; name: string }) {
  const [url, setUrl] = useState("");
  const [problem, setProblem] = useState("");
  useEffect(() => {
    const pieces = decodeBase64(raw);
    if (!pieces?.[0]) return setProblem("This is not a valid picture.");
    if (isTooLargePicture(pieces[0])) return setProblem("This picture has too many pixels to be shown.");
    const made = URL.createObjectURL(new Blob(pieces, { type }));
    setUrl(made);
    return () => URL.revokeObjectURL(made);
  }, [raw, type]);
  if (problem) return <p class="note">{problem}</p>;
  if (!url) return null;
  return (
    <img
      class="picture" src={url} alt={name} decoding="async"
      onError={() => setProblem("The browser cannot show this picture.")}
    />
  );
}

/** The path of a large file that the server has left out of a task; its metadata has the size. */
const LEFT_OUT = /^\/console\/api\/tasks\/[^/?]+\/files\/[^/?]+\/\d+(?:\?|$)/;

/** A part that names a file by its URL. The server fetches it, so that the agent's server learns nothing of the reader. */
export function UrlFileView({ part, agent }: { part: Part; agent: string | undefined }) {
  const address = part.url ?? "";
  const size = part.metadata?.["urn:parley:console:omitted"];
  const isLeftOut = typeof size === "number" && LEFT_OUT.test(address);
  const [isBusy, setBusy] = useState(false);
  async function save() {
    setBusy(true);
    try {
      const response = await request("GET", isLeftOut ? address : withQuery(`${API}/fetch`, { agent, url: address }), undefined, { headers: { Accept: "*/*" } });
      if (!response.ok) throw await errorOf(response);
      saveAs([await response.blob()], fileName(part.filename ?? nameIn(address), part.mediaType));
    } catch (error) {
      toastError(error, "The file could not be fetched");
    } finally {
      setBusy(false);
    }
  }
  return (
    <div class="file">
      <div class="file-bar">
        <Icon name={isLeftOut ? "file" : "link"} />
        <span class="file-name">
          {isLeftOut
            ? <bdi>{shortLine(part.filename ?? "", 100) || "File without a name"}</bdi>
            : <SafeLink href={address} text="">{shortLine(part.filename || nameIn(address) || address, 100)}</SafeLink>}
        </span>
        <span class="dim">{shortLine(part.mediaType ?? "", 60)}{isLeftOut && `, ${bytesText(size)}`}</span>
        {(isLeftOut || agent !== undefined) && <Button kind="quiet" small icon="download" busy={isBusy && "Fetching…"} onClick={save}>Save</Button>}
      </div>
    </div>
  );
}

function nameIn(address: string): string {
  return /\/([^/?#]+)(?:[?#].*)?$/.exec(address)?.[1] ?? "";
}
