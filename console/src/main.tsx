// Where the page begins: styles, the router, shortcuts, the session, and the first rendering.

import "./styles/tokens.css";
import "./styles/base.css";
import "./styles/parts.css";
import "./styles/shell.css";
import "./styles/pages.css";
import { render } from "preact";
import { watchNetwork } from "./api/stream.ts";
import { App, begin } from "./app.tsx";
import { startRouter } from "./router.ts";
import { startShortcuts } from "./shortcuts.ts";
import { startTheme } from "./theme.ts";

startTheme();
startRouter();
startShortcuts();
watchNetwork();
render(<App />, document.getElementById("app")!);
void begin();
