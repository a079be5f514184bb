// The search runs in a worker, which browsers refuse to pages that are opened as files. An iframe then runs its script.
if (location.protocol === "file:") {
  window.Worker = class {
    constructor(url) {
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      this.loaded = new Promise((resolve) => this.frame.addEventListener("load", resolve));
      this.listener = (event) => {
        if (event.source === this.frame.contentWindow && this.onmessage) this.onmessage(event);
      };
      window.addEventListener("message", this.listener);
      const answer = "self.postMessage = (data) => parent.postMessage(data, '*')";
      this.frame.srcdoc = `<script>${answer}</script><script src="${url}"></script>`;
      document.body.append(this.frame);
    }
    postMessage(data) {
      const copy = new MessageEvent("message", { data: structuredClone(data) });
      this.loaded.then(() => this.frame.contentWindow.dispatchEvent(copy));
    }
    terminate() {
      window.removeEventListener("message", this.listener);
      this.frame.remove();
    }
  };
}
