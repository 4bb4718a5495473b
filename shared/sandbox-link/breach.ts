/** The sandbox sent what the protocol does not allow. Its channel is closed; what it had in hand is lost. */
export class SandboxBreach extends Error {
  override readonly name = "SandboxBreach";
  readonly code = "sandbox_breach";
}
