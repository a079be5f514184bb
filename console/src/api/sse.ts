// Server-sent events from pieces of text, cut anywhere. Only `data` and comments matter to the console.
// A piece is scanned once, however long the event is that it belongs to. Spec: HTML, section 9.2.6.

/** Feed it text; it calls back with the data of every complete event. */
export class SseDecoder {
  private pieces: string[] = [];
  private data: string[] = [];
  private endsWithCr = false;

  constructor(private readonly onData: (data: string) => void) {}

  feed(text: string): void {
    if (this.endsWithCr && text.startsWith("\n")) text = text.slice(1);
    if (text) this.endsWithCr = text.endsWith("\r");
    let start = 0;
    const ends = /\r\n|\n|\r/g;
    for (let found = ends.exec(text); found; found = ends.exec(text)) {
      this.pieces.push(text.slice(start, found.index));
      start = ends.lastIndex;
      this.line(this.pieces.length === 1 ? this.pieces[0]! : this.pieces.join(""));
      this.pieces = [];
    }
    if (start < text.length) this.pieces.push(text.slice(start));
  }

  private line(line: string): void {
    if (line === "") {
      if (this.data.length) this.onData(this.data.join("\n"));
      this.data = [];
    } else if (line.startsWith("data:")) {
      this.data.push(line.slice(line[5] === " " ? 6 : 5));
    }
  }
}
