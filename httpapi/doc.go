// Package httpapi is the HTTP front-end: it turns requests into operations of a Broker, and what comes back into JSON.
//
// What it promises, beyond the routes:
//
//   - A request that is refused has reached nobody: the broker is called once everything about the request is known to
//     be well formed. Refusals are {"error","code"}, mapped from errors in one table. (Requests that are no HTTP, and
//     headers beyond 64 KiB, are answered by net/http in plain text, 400 and 431, and the connection is closed.)
//   - Payloads are kept byte for byte (contract R4). Member names of the envelope are compared by case, and one that
//     comes twice is refused, so that no two parsers can read two requests out of one.
//   - Nothing that a client grows is without a bound: header, body, nesting, items, unknown members, and the bytes in
//     flight of all clients together (contract B8). Slow headers, slow bodies and readers that do not read are cut off.
//     A long poll is not: no deadline runs while a pop waits.
//   - A consumer that has gone gets nothing (contract D9): its request's context is looked at before claiming, before
//     writing and after flushing, and what it did not take is given back at once.
//   - Queen-Served-By names the broker that answered, Queen-Incarnation the ring where one ring did.
//
// A request takes this way: the kill switch, the router, Config.Admit (who is it, may it), the shape of the query or the
// body, the bytes in flight, the broker. Memory of bodies, decoded requests and answers is pooled, and what is kept is
// bounded; a parked pop holds none of it.
package httpapi
