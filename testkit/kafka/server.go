package kafka

import (
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// choosePorts finds ports that are free now, unless it has some already.
func (p *process) choosePorts() error {
	if p.ports[0] != 0 {
		return nil
	}
	p.ports[0] = p.opts.Port
	for i := range p.ports {
		if p.ports[i] != 0 {
			continue
		}
		// All are held until the last is chosen, so that they differ.
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		defer l.Close()
		p.ports[i] = l.Addr().(*net.TCPAddr).Port
	}
	return nil
}

// formatArgs are those that make the directory one of Kafka, with the users that it has from
// the start.
func (p *process) formatArgs(props string) []string {
	args := []string{"format", "-t", uuid(), "-c", props}
	for _, u := range p.opts.Users {
		for _, mechanism := range []string{ScramSHA256, ScramSHA512} {
			args = append(args, "--add-scram", fmt.Sprintf("%s=[name=%s,password=%s]", mechanism, u.Name, u.Password))
		}
	}
	return args
}

// serverProperties returns what server.properties has.
func (p *process) serverProperties() map[string]string {
	protocol := map[[2]bool]string{
		{false, false}: "PLAINTEXT", {true, false}: "SSL", {false, true}: "SASL_PLAINTEXT", {true, true}: "SASL_SSL",
	}[[2]bool{p.certs != nil, len(p.opts.Users) > 0}]
	props := map[string]string{
		"process.roles":            "broker,controller",
		"node.id":                  "1",
		"controller.quorum.voters": fmt.Sprintf("1@127.0.0.1:%d", p.ports[2]),
		"listeners": fmt.Sprintf("CLIENT://127.0.0.1:%d,INTERNAL://127.0.0.1:%d,CONTROLLER://127.0.0.1:%d",
			p.ports[0], p.ports[1], p.ports[2]),
		"advertised.listeners":           fmt.Sprintf("CLIENT://127.0.0.1:%d,INTERNAL://127.0.0.1:%d", p.ports[0], p.ports[1]),
		"controller.listener.names":      "CONTROLLER",
		"inter.broker.listener.name":     "INTERNAL",
		"listener.security.protocol.map": "CLIENT:" + protocol + ",INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT",
		"log.dirs":                       p.dataDir(),

		"num.partitions":                                   strconv.Itoa(p.opts.Partitions),
		"auto.create.topics.enable":                        "false",
		"offsets.topic.num.partitions":                     strconv.Itoa(coordinatorPartitions),
		"offsets.topic.replication.factor":                 "1",
		"transaction.state.log.num.partitions":             strconv.Itoa(coordinatorPartitions),
		"transaction.state.log.replication.factor":         "1",
		"transaction.state.log.min.isr":                    "1",
		"share.coordinator.state.topic.replication.factor": "1",
		"share.coordinator.state.topic.min.isr":            "1",
		"group.initial.rebalance.delay.ms":                 "0",
		"group.min.session.timeout.ms":                     strconv.FormatInt(minSessionTimeout.Milliseconds(), 10),
	}
	if p.certs != nil {
		props["ssl.keystore.type"] = "PEM"
		props["ssl.keystore.location"] = filepath.Join(p.opts.Dir, "keystore.pem")
	}
	if len(p.opts.Users) > 0 {
		props["sasl.enabled.mechanisms"] = strings.Join([]string{Plain, ScramSHA256, ScramSHA512}, ",")
		var plain strings.Builder
		plain.WriteString("org.apache.kafka.common.security.plain.PlainLoginModule required")
		for _, u := range p.opts.Users {
			fmt.Fprintf(&plain, ` user_%s="%s"`, u.Name, u.Password)
		}
		props["listener.name.client.plain.sasl.jaas.config"] = plain.String() + ";"
		for _, mechanism := range []string{"scram-sha-256", "scram-sha-512"} {
			props["listener.name.client."+mechanism+".sasl.jaas.config"] = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
		}
	}
	// After a kill the controller waits this long for the broker that was; Kafka's 9 s are for
	// networks.
	props["broker.session.timeout.ms"] = "3000"
	props["broker.heartbeat.interval.ms"] = "500"
	if p.cluster != nil {
		maps.Copy(props, p.cluster.properties(p))
	}
	maps.Copy(props, p.opts.Properties)
	return props
}

// writeProperties writes them to a file, and what they refer to, and returns its path.
func (p *process) writeProperties(name string, props map[string]string) (string, error) {
	if p.certs != nil {
		if err := os.WriteFile(props["ssl.keystore.location"], p.certs.keystore, 0o600); err != nil {
			return "", err
		}
	}
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(props)) {
		fmt.Fprintf(&text, "%s=%s\n", name, strings.ReplaceAll(props[name], `\`, `\\`))
	}
	path := filepath.Join(p.opts.Dir, name)
	// It holds passwords.
	return path, os.WriteFile(path, []byte(text.String()), 0o600)
}
