// Every operation of the Engine API v1.41, from Docker's published description of it, and the undocumented ones that the
// engine answers too. `{id}` and `{name}` stand for an object.
const documented = `
GET /containers/json
POST /containers/create
GET /containers/{id}/json
GET /containers/{id}/top
GET /containers/{id}/logs
GET /containers/{id}/changes
GET /containers/{id}/export
GET /containers/{id}/stats
POST /containers/{id}/resize
POST /containers/{id}/start
POST /containers/{id}/stop
POST /containers/{id}/restart
POST /containers/{id}/kill
POST /containers/{id}/update
POST /containers/{id}/rename
POST /containers/{id}/pause
POST /containers/{id}/unpause
POST /containers/{id}/attach
GET /containers/{id}/attach/ws
POST /containers/{id}/wait
DELETE /containers/{id}
HEAD /containers/{id}/archive
GET /containers/{id}/archive
PUT /containers/{id}/archive
POST /containers/prune
GET /images/json
POST /build
POST /build/prune
POST /images/create
GET /images/{name}/json
GET /images/{name}/history
POST /images/{name}/push
POST /images/{name}/tag
DELETE /images/{name}
GET /images/search
POST /images/prune
POST /auth
GET /info
GET /version
GET /_ping
HEAD /_ping
POST /commit
GET /events
GET /system/df
GET /images/{name}/get
GET /images/get
POST /images/load
POST /containers/{id}/exec
POST /exec/{id}/start
POST /exec/{id}/resize
GET /exec/{id}/json
GET /volumes
POST /volumes/create
GET /volumes/{name}
DELETE /volumes/{name}
POST /volumes/prune
GET /networks
GET /networks/{id}
DELETE /networks/{id}
POST /networks/create
POST /networks/{id}/connect
POST /networks/{id}/disconnect
POST /networks/prune
GET /plugins
GET /plugins/privileges
POST /plugins/pull
GET /plugins/{name}/json
DELETE /plugins/{name}
POST /plugins/{name}/enable
POST /plugins/{name}/disable
POST /plugins/{name}/upgrade
POST /plugins/create
POST /plugins/{name}/push
POST /plugins/{name}/set
GET /nodes
GET /nodes/{id}
DELETE /nodes/{id}
POST /nodes/{id}/update
GET /swarm
POST /swarm/init
POST /swarm/join
POST /swarm/leave
POST /swarm/update
GET /swarm/unlockkey
POST /swarm/unlock
GET /services
POST /services/create
GET /services/{id}
DELETE /services/{id}
POST /services/{id}/update
GET /services/{id}/logs
GET /tasks
GET /tasks/{id}
GET /tasks/{id}/logs
GET /secrets
POST /secrets/create
GET /secrets/{id}
DELETE /secrets/{id}
POST /secrets/{id}/update
GET /configs
POST /configs/create
GET /configs/{id}
DELETE /configs/{id}
POST /configs/{id}/update
GET /distribution/{name}/json
POST /session
`;

/** Old spellings, debug pages and the builder's channel. */
const undocumented = `
GET /containers/ps
POST /containers/{id}/copy
OPTIONS /containers/json
TRACE /info
PATCH /containers/{id}
PUT /containers/{id}
GET /debug/vars
GET /debug/pprof/
GET /debug/pprof/cmdline
GET /debug/pprof/heap
GET /metrics
POST /grpc
GET /images/{name}/changes
GET /images/viz
GET /swarm/init
HEAD /containers/json
HEAD /info
POST /info
POST /containers/{id}/json
GET /containers/{id}
GET /
GET /v1.41
`;

export type Operation = Readonly<{ method: string; path: string }>;

export const operations: readonly Operation[] = listed(documented);
export const oddOperations: readonly Operation[] = listed(undocumented);

function listed(text: string): Operation[] {
  return text
    .trim()
    .split("\n")
    .map((line) => {
      const [method = "", path = ""] = line.split(" ");
      return { method, path };
    });
}
