// What a hostile program sends to the relay, in the words of guest-program.ts.

/** Frames that no sandbox may send, as arguments of `sends` in guest-program.ts, and how the relay ends the connection. */
export type Breach = Readonly<{ what: string; sends: string; ends: RegExp }>;

const MIB = 1024 * 1024;
const PROTOCOL = /^1002$/;
const TOO_LARGE = /^1009$/;
/** CloseCode.protocol */
const OURS = /^4003$/;

export const breaches: readonly Breach[] = [
  { what: "a frame over the limit", sends: `message(2, 1, "x" x ${MIB})`, ends: TOO_LARGE },
  { what: "a frame that says it has 2^62 bytes", sends: `pack("CCQ>N", 0x82, 0xff, 1 << 62, 0)`, ends: TOO_LARGE },
  {
    what: "a message over the limit in many parts",
    sends: `frame(0x02, "x" x 300_000), (frame(0x00, "x" x 300_000)) x 4`,
    ends: TOO_LARGE,
  },
  {
    what: "a message in parts without end",
    sends: `frame(0x02, "x"), (frame(0x00, "x")) x 5000`,
    ends: /^(1008|1002|1009)$/,
  },
  { what: "a frame without a mask", sends: `frame(0x82, "x" x 10, 0)`, ends: PROTOCOL },
  { what: "a frame with a reserved bit", sends: `frame(0xa2, "x" x 10)`, ends: PROTOCOL },
  { what: "a frame of an unknown type", sends: `frame(0x8b, "x")`, ends: PROTOCOL },
  { what: "a continuation of nothing", sends: `frame(0x80, "x")`, ends: PROTOCOL },
  { what: "a ping that is too long", sends: `frame(0x89, "x" x 126)`, ends: PROTOCOL },
  { what: "a ping in parts", sends: `frame(0x09, "x")`, ends: PROTOCOL },
  { what: "a close with a code that is none", sends: `frame(0x88, pack("n", 7))`, ends: PROTOCOL },
  { what: "text", sends: `frame(0x81, "hello")`, ends: OURS },
  { what: "text that is no UTF-8", sends: `frame(0x81, "\\xff\\xfe")`, ends: /^1007$/ },
  { what: "a frame without a header", sends: `frame(0x82, "xxx")`, ends: OURS },
  { what: "an empty frame", sends: `frame(0x82, "")`, ends: OURS },
  { what: "a frame of an unknown kind", sends: `message(99, 0, "")`, ends: OURS },
  { what: "a frame that only the relay sends", sends: `message(16, 1, "")`, ends: OURS },
  { what: "a status of its own making", sends: `message(18, 0, '{"online":true}')`, ends: OURS },
  { what: "a frame for a channel that never was", sends: `message(1, 77, "{}")`, ends: OURS },
  { what: "bytes that are no frames at all", sends: `"GET / HTTP/1.1\\r\\n\\r\\n" x 10`, ends: PROTOCOL },
];

/** Each goes on until `$end`. */
export const floods: readonly Readonly<{ what: string; program: string }>[] = [
  {
    what: "connections that say nothing",
    program: `my @s; while (time < $end) { my $s = dial() or next; push @s, $s; shift @s if @s > 2000 }`,
  },
  {
    what: "requests that never end",
    program: `my @s; while (time < $end) { my $s = dial() or next; print $s "GET /v1/connect HTTP/1.1\\r\\n"; $s->flush;
      push @s, $s; shift @s if @s > 2000 }`,
  },
  {
    what: "join attempts with made-up tokens",
    program: `my $n = 0; while (time < $end) { ask("POST", "/v1/join", "made-up-token-" . $n++) }`,
  },
  { what: "connections of its own", program: `while (time < $end) { eval { upgrade("/v1/connect", $pass) } }` },
  {
    what: "frames as fast as they are taken",
    program: `my $s = connected(); my $many = message(2, 1, "x" x 1000) x 500; my $sent = 0;
      while (time < $end) { print $s $many or die "cut off"; $sent++ } die "none taken" unless $sent`,
  },
  {
    what: "large frames as fast as they are taken",
    program: `my $s = connected(); my $many = message(2, 1, "x" x 60_000) x 20; my $sent = 0;
      while (time < $end) { print $s $many or die "cut off"; $sent++ } die "none taken" unless $sent`,
  },
  {
    what: "the smallest frames that there are",
    program: `my $s = connected(); my $many = message(3, 1, "") x 5000; my $sent = 0;
      while (time < $end) { print $s $many or die "cut off"; $sent++ } die "none taken" unless $sent`,
  },
  {
    what: "pings whose answers it does not read",
    program: `my $s = connected(); my $many = frame(0x89, "x" x 100) x 1000;
      while (time < $end) { my $w = ""; vec($w, fileno($s), 1) = 1; select(undef, $w, undef, 0.1) and syswrite($s, $many) }`,
  },
];
