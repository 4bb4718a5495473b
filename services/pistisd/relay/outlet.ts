// The way out of the daemon: one socket that many streams share.
export interface Outlet {
  /** Copies the frame and never blocks; a dead socket drops the frame, and the reconnect sorts out what was lost. */
  send(frame: Uint8Array): void;
  /** More waits in the socket than should. */
  isFull(): boolean;
  /** Resolves when the socket took enough of what waits, or died. */
  hasRoom(): Promise<void>;
}
