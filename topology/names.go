package topology

import (
	"errors"
	"fmt"
	"strings"
)

// maxTopicName is the longest topic name that Kafka takes, in bytes.
const maxTopicName = 249

// checkName says what is wrong with a topic's name or a part of one.
func checkName(name string) error {
	if name == "" {
		return errors.New("the name is empty")
	}
	if name == "." || name == ".." {
		return fmt.Errorf("the name %q is reserved", name)
	}
	for i := range len(name) {
		c := name[i]
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '.' || c == '_' || c == '-') {
			return fmt.Errorf("the name %q has %q at byte %d: must be of a-z A-Z 0-9 . _ -", name, c, i)
		}
	}
	if len(name) > maxTopicName {
		return fmt.Errorf("the name has %d bytes, must be <= %d", len(name), maxTopicName)
	}
	return nil
}

// checkDerived checks the topic name that is derived from a durable name.
func checkDerived(topic string) error {
	if len(topic) > maxTopicName {
		return fmt.Errorf("the topic name derived from it, %q, has %d bytes, must be <= %d", topic, len(topic), maxTopicName)
	}
	return nil
}

// repartitionTopic and changelogTopic derive the names of internal topics.
func repartitionTopic(app, rekey string) string { return app + "-" + rekey + "-repartition" }

func changelogTopic(app, store string) string { return app + "-" + store + "-changelog" }

// deadLetterTopic is where dead letters go unless the source says otherwise.
func deadLetterTopic(app string) string { return app + "-dead-letter" }

// internal says whether a topic's name has the form of the application's internal topics.
func internal(app, topic string) bool {
	rest, ok := strings.CutPrefix(topic, app+"-")
	return ok && (strings.HasSuffix(rest, "-repartition") || strings.HasSuffix(rest, "-changelog"))
}

// metricName is what Kafka makes of a topic's name in its metrics: names that differ in '.' and
// '_' only are the same there, and Kafka refuses the second topic.
func metricName(topic string) string { return strings.ReplaceAll(topic, ".", "_") }

// checkNames finds names that are used twice: durable names, sub-topology names, and
// topic names, as they are and as derived.
func (b *Builder) checkNames() {
	stores, rekeys, sources := map[string]*node{}, map[string]*node{}, map[string]*node{}
	take := func(taken map[string]*node, n *node, what string) {
		if first := taken[n.traits.Name]; first != nil {
			n.fail("the name is taken by %s at %s: %s", first.traits.String(), first.at, what)
			return
		}
		taken[n.traits.Name] = n
	}
	for _, n := range b.nodes {
		switch {
		case n.unnamed:
		case n.role == roleSource:
			if first := sources[n.traits.Name]; first != nil {
				n.fail("the topic is read already at %s: use the stream twice instead", first.at)
				continue
			}
			sources[n.traits.Name] = n
		case n.role == roleRekey:
			take(rekeys, n, "a repartition topic is found by its durable name")
		case n.traits.Store != "":
			take(stores, n, "state is found by its durable name")
		}
	}
	for _, n := range rekeys {
		if s := sources[n.lasting()]; s != nil {
			n.fail("the name is that of the source topic read at %s: sub-topologies are named after both", s.at)
		}
	}
	b.checkTopics()
}

// checkTopics finds topics, user's and derived, that Kafka would take for each other.
func (b *Builder) checkTopics() {
	type use struct {
		n     *node
		topic string
	}
	taken := map[string]use{}
	for _, n := range b.nodes {
		if n.unnamed {
			continue
		}
		var topic string
		switch {
		case n.role == roleSource || n.role == roleSink:
			topic = n.traits.Name
		case n.role == roleRekey:
			topic = repartitionTopic(b.app, n.lasting())
		case n.traits.Store != "":
			topic = changelogTopic(b.app, n.lasting())
		default:
			continue
		}
		first, ok := taken[metricName(topic)]
		if !ok {
			taken[metricName(topic)] = use{n, topic}
		} else if first.topic != topic { // one that is read and written is no collision, and equal derived names are reported above
			n.fail("its topic %s collides with topic %s of %s at %s: Kafka does not tell '.' from '_' in its metrics", topic, first.topic, first.n.traits.String(), first.n.at)
		}
	}
}
