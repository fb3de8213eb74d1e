package main

import (
	"time"
)

// config is the whole configuration. This struct is the one list of variables: its tags are what is parsed, checked,
// and printed by help and config.
//
//	env         the variable
//	envDefault  its default, as text
//	min, max    the range of a number
//	check       the rule for a text, see rules
//	shown       the default as shown, where it is worked out at the start
//	secret      "true": its value is never printed
//	desc        its meaning
type config struct {
	Host string `env:"HOST" desc:"address to listen on; empty: all interfaces"`
	Port int64  `env:"PORT" envDefault:"6632" min:"0" max:"65535" desc:"port to listen on; 0: any free one, see the log"`

	MaxBodyBytes     int64 `env:"QUEEN_MAX_BODY_BYTES" envDefault:"67108864" min:"1024" max:"1073741824" desc:"longest request body, bytes"`
	PopTimeoutMillis int64 `env:"POP_DEFAULT_TIMEOUT_MS" envDefault:"30000" min:"0" max:"300000" desc:"how long a waiting pop waits that names no timeout, milliseconds"`
	InflightMaxBytes int64 `env:"QUEEN_INFLIGHT_MAX_BYTES" shown:"a quarter of QUEEN_EPHEMERAL_MAX_BYTES" min:"65536" max:"1099511627776" desc:"bound of the bytes of bodies being read and answers being sent"`
	MaxBytes         int64 `env:"QUEEN_EPHEMERAL_MAX_BYTES" envDefault:"268435456" min:"1" max:"1099511627776" desc:"the broker's memory budget for queues, bytes"`
	QueueMaxBytes    int64 `env:"QUEEN_EPHEMERAL_QUEUE_MAX_BYTES" envDefault:"16777216" min:"1" max:"1099511627776" desc:"default and ceiling of a queue's maxBytes"`
	QueueMaxLength   int64 `env:"QUEEN_EPHEMERAL_QUEUE_MAX_LENGTH" envDefault:"10000" min:"1" max:"1000000000" desc:"default and ceiling of a queue's maxLength"`
	LeaseSeconds     int64 `env:"QUEEN_EPHEMERAL_LEASE_S" envDefault:"30" min:"1" max:"86400" desc:"default of a queue's leaseSeconds"`
	RetryLimit       int64 `env:"QUEEN_EPHEMERAL_RETRY_LIMIT" envDefault:"5" min:"0" max:"1000" desc:"default of a queue's retryLimit; 0: one delivery"`
	ImplicitIdleSecs int64 `env:"QUEEN_EPHEMERAL_IMPLICIT_IDLE_S" envDefault:"300" min:"1" max:"31536000" desc:"collect an empty implicit queue that was not used for so many seconds"`
	GroupIdleSecs    int64 `env:"QUEEN_EPHEMERAL_GROUP_IDLE_S" envDefault:"3600" min:"0" max:"31536000" desc:"forget a group that was not used for so many seconds; 0: never"`
	MaxGroups        int64 `env:"QUEEN_EPHEMERAL_MAX_GROUPS" envDefault:"1000" min:"1" max:"50000" desc:"most groups of a queue"`
	MaxPartitions    int64 `env:"QUEEN_EPHEMERAL_MAX_PARTITIONS" envDefault:"100000" min:"1" max:"10000000" desc:"most partitions of a queue on this broker"`

	Store string `env:"QUEEN_STORE" envDefault:"file:queencell.db" check:"store" desc:"where declarations are kept: file:PATH, or memory, which forgets them"`

	Node     string        `env:"QUEEN_NODE_ID" shown:"the host's name and four random hex digits" check:"name" desc:"this broker's name; set it, so that it is the same after a restart"`
	CellName string        `env:"QUEEN_CELL_NAME" envDefault:"queencell" check:"name" desc:"name of the cell"`
	URL      string        `env:"QUEEN_CELL_URL" shown:"http://HOST:PORT" check:"url" desc:"what clients use for this broker"`
	Drain    time.Duration `env:"QUEEN_CELL_DRAIN" envDefault:"8s" min:"0s" max:"1h" desc:"how long a stopping broker lets requests finish; then it exits with code 1"`

	LogLevel string `env:"LOG_LEVEL" envDefault:"info" check:"level" desc:"debug, info, warn or error"`
	LogJSON  bool   `env:"QUEEN_LOG_JSON" envDefault:"false" desc:"log lines are JSON objects"`
}

// rules are the checks of texts. Each returns what is accepted when the value is not.
var rules = map[string]func(value string) (accepts string, ok bool){
	"store": checkStore,
	"name":  checkName,
	"url":   checkURL,
	"level": checkLevel,
}

// later are the variables of features that this version does not have. One that asks for its feature stops the start: an
// operator who set it would believe that it works. The value is the one that asks for nothing, "" if every value asks.
var later = map[string]string{
	"PG_HOST": "", "PG_PORT": "", "PG_USER": "", "PG_PASSWORD": "", "PG_DATABASE": "", "PG_USE_SSL": "false", "DB_POOL_SIZE": "",
	"JWT_ENABLED": "false", "QUEEN_TENANCY_HEADER": "false", "QUEEN_TRUST_PROXY": "false",
	"QUEEN_EPHEMERAL_REQUIRE_GRANT": "false", "QUEEN_EPHEMERAL_RATE": "0", "QUEEN_EPHEMERAL_BURST": "0",
	"QUEEN_CELL_JOIN": "", "QUEEN_CELL_JOIN_WAIT": "", "QUEEN_CELL_SECRET": "", "QUEEN_CELL_INSECURE": "false",
	"QUEEN_CELL_GOSSIP_ADDR": "", "QUEEN_CELL_PEER_ADDR": "", "QUEEN_CELL_PEER_PARKED": "", "QUEEN_CELL_ADVERTISE": "",
	"QUEEN_CELL_DRAIN_MIN": "0s", "QUEEN_CELL_PROBE": "", "QUEEN_MEMCACHEQ_ADDR": "",
}
