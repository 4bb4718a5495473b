// The IPv4 ranges that are no part of the public internet, from IANA's registry of special-purpose addresses, and the
// metadata services of clouds. A sandbox with internet reaches none of them.

/** In canonical form: the first address of the range, then its prefix. */
export const CLOSED_RANGES = [
  "0.0.0.0/8", // this host
  "10.0.0.0/8", // private
  "100.64.0.0/10", // carrier-grade NAT; also metadata at 100.100.100.200
  "127.0.0.0/8", // loopback
  "168.63.129.16/32", // metadata and name service of a cloud, at a public address
  "169.254.0.0/16", // link-local; metadata at 169.254.169.254
  "172.16.0.0/12", // private
  "192.0.0.0/24", // protocol assignments; metadata at 192.0.0.192
  "192.0.2.0/24", // documentation
  "192.88.99.0/24", // IPv6 relays, withdrawn
  "192.168.0.0/16", // private
  "198.18.0.0/15", // benchmarks
  "198.51.100.0/24", // documentation
  "203.0.113.0/24", // documentation
  "224.0.0.0/4", // multicast
  "240.0.0.0/4", // reserved, and broadcast
] as const;
