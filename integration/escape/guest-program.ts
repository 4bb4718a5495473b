// What a hostile program in a sandbox needs to speak to the relay's socket by itself: HTTP, and WebSocket frames of any
// form. Perl, because every Debian has it. Each program prints what came of it.

/** What a sandbox was given, and the name of its own socket. */
type Given = Readonly<{ pass: string; token: string; socket: string }>;

/** Before the program's own text. `$pass` and `$token` are what this sandbox was given. */
export function perlProgram(text: string, { pass, token, socket }: Given): string {
  return `use strict; use IO::Socket::UNIX; $| = 1; $SIG{PIPE} = "IGNORE"; alarm 60;
my ($pass, $token) = ("${pass}", "${token}");
sub dial { IO::Socket::UNIX->new(Peer => "/run/pistis/${socket}") }
sub ask {
  my ($method, $path, $bearer, $more, $body) = @_;
  my $socket = dial() or return "no socket";
  print $socket "$method $path HTTP/1.1\\r\\nhost: relay\\r\\nconnection: close\\r\\nauthorization: Bearer $bearer\\r\\n" .
    ($more || "") . "\\r\\n" . (defined $body ? $body : "");
  local $/; my $answer = <$socket>;
  return $answer =~ m{^HTTP/1.1 (\\d+).*?("code":"(\\w+)"|$)}s ? $1 . ($3 ? " $3" : "") : "cut";
}
sub upgrade {
  my ($path, $bearer, $more) = @_;
  my $socket = dial() or die "no socket";
  print $socket "GET $path HTTP/1.1\\r\\nhost: relay\\r\\nconnection: Upgrade\\r\\nupgrade: websocket\\r\\n" .
    "sec-websocket-version: 13\\r\\nsec-websocket-key: MDEyMzQ1Njc4OWFiY2RlZg==\\r\\nsec-websocket-protocol: pistis.1\\r\\n" .
    "authorization: Bearer $bearer\\r\\npistis-boot-id: hostile\\r\\n" . ($more || "") . "\\r\\n";
  my $head = "";
  while ($head !~ /\\r\\n\\r\\n/) { sysread($socket, $head, 1, length $head) or last }
  return ($socket, $head);
}
sub connected { my ($socket, $head) = upgrade("/v1/connect", $pass, @_); die $head if $head !~ / 101 /; return $socket }
sub frame {
  my ($first, $payload, $masked) = @_;
  my $bit = defined $masked && !$masked ? 0 : 0x80; my $size = length $payload;
  my $length = $size < 126 ? pack("C", $bit | $size) : $size < 65536 ? pack("Cn", $bit | 126, $size) : pack("CQ>", $bit | 127, $size);
  return pack("C", $first) . $length . ($bit ? "\\0\\0\\0\\0" : "") . $payload;
}
sub message { my ($kind, $channel, $payload) = @_; frame(0x82, pack("CN", $kind, $channel) . $payload) }
sub ending {
  my ($socket) = @_; my $in = "";
  for (;;) {
    if (length $in >= 2) {
      my ($first, $size) = unpack("CC", $in); my $head = 2;
      if ($size == 126 && length $in >= 4) { $size = unpack("x2n", $in); $head = 4 }
      if (length $in >= $head + $size) {
        return unpack("n", substr($in, $head, 2)) if ($first & 15) == 8;
        substr($in, 0, $head + $size) = ""; next;
      }
    }
    sysread($socket, $in, 65536, length $in) or return "cut";
  }
}
sub sends { my $socket = connected(); for my $bytes (@_) { print $socket $bytes or last } $socket->flush; return ending($socket) }
${text}
`;
}
