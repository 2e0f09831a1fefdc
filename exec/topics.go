package exec

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/wickerwork/wicker/exec/commitlog"
	"github.com/wickerwork/wicker/topology"
)

// prepareTopics checks the topics of the plan, creates its internal ones and lists its tasks.
// Nothing is created while anything is wrong, and everything that is wrong is reported at once.
func (a *App) prepareTopics(ctx context.Context) error {
	specs := a.plan.Topics()
	var user []string
	for _, s := range specs {
		if !s.Kind.Internal() {
			user = append(user, s.Name)
		}
	}
	found, err := a.log.Topics(ctx, user...)
	if err != nil {
		return err
	}
	counts := map[string]int{}
	var problems []string
	var letters []commitlog.TopicSpec // the topic of dead letters, if it is missing
	for _, s := range specs {
		if s.Kind.Internal() {
			continue
		}
		if _, ok := found[s.Name]; !ok && s.Kind == topology.DeadLetterTopic && s.Partitions > 0 {
			config := maps.Clone(s.Config)
			config["max.message.bytes"] = strconv.Itoa(max(1<<20, a.cfg.MaxRecordBytes) + letterRoom)
			letters = append(letters, commitlog.TopicSpec{Name: s.Name, Partitions: s.Partitions, Replication: a.cfg.Replication, Config: config})
			counts[s.Name] = s.Partitions
			a.limits[s.Name] = a.cfg.MaxRecordBytes + letterRoom
		} else if t, ok := found[s.Name]; ok {
			counts[s.Name] = t.Partitions
			if s.Kind == topology.DeadLetterTopic {
				a.limits[s.Name] = a.cfg.MaxRecordBytes + letterRoom
			}
			if s.Kind == topology.SourceTopic || s.Kind == topology.TableTopic {
				a.topicIDs[s.Name] = t.ID
			}
		} else {
			config := s.Config
			if s.Kind == topology.TableTopic { // which others may prefer otherwise
				config = map[string]string{"cleanup.policy": "compact"}
			}
			problems = append(problems, fmt.Sprintf("%s topic %s does not exist: create it with %s",
				s.Kind, s.Name, a.createCommand(s.Name, 0, config)))
		}
	}
	if len(problems) > 0 {
		return &TopicsError{Problems: problems}
	}
	internal, err := a.plan.Resolve(counts)
	if err != nil {
		if ce, ok := errors.AsType[*topology.CopartitionError](err); ok {
			ce.Bootstrap = a.bootstrap()
		}
		return err
	}
	maps.Copy(counts, internal)
	a.partitions = counts
	for _, sub := range a.plan.Subtopologies() {
		n := 0
		for _, topic := range sub.Sources {
			n = max(n, counts[topic])
		}
		for p := range n {
			a.tasks = append(a.tasks, taskSpec{sub, int32(p), a.inputs(sub, int32(p))})
		}
	}
	slices.SortStableFunc(a.tasks, func(x, y taskSpec) int { return int(x.partition - y.partition) })
	if err := a.ensureInternal(ctx, specs, internal); err != nil {
		return err
	}
	if len(letters) == 0 {
		return nil
	}
	if err := a.log.CreateTopics(ctx, letters); err != nil {
		return fmt.Errorf("create topic %s: %w", letters[0].Name, err)
	}
	a.cfg.Logger.Info("created topic", "topic", letters[0].Name, "partitions", letters[0].Partitions)
	return nil
}

// checkTopics returns a *TopicsError if topics have been deleted, created again, or have other partition counts
// than when this run began: its tasks are those of the old counts, so that nobody would read
// the partitions that came, and keys have moved away from their state. What cannot be asked now is asked next time.
func (a *App) checkTopics(ctx context.Context) error {
	var err error
	for try := range 2 { // a broker that has just started may not have heard of all topics yet
		if try > 0 {
			if a.pause(ctx, endRetry) != nil {
				return nil
			}
		}
		if err = a.lookAtTopics(ctx); err == nil {
			return nil
		}
	}
	return err
}

// lookAtTopics looks once.
func (a *App) lookAtTopics(ctx context.Context) error {
	names := slices.Sorted(maps.Keys(a.partitions))
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	found, err := a.log.Topics(ctx, names...)
	if err != nil {
		a.cfg.Logger.Debug("look at topics", "error", err.Error())
		return nil
	}
	var problems []string
	for _, name := range names {
		t, ok := found[name]
		was := a.topicIDs[name]
		switch {
		case !ok:
			problems = append(problems, fmt.Sprintf("topic %s was deleted while the plan runs", name))
		case t.Partitions != a.partitions[name]:
			problems = append(problems, a.countChanged(name, t.Partitions))
		case was.Differs(t.ID):
			problems = append(problems, fmt.Sprintf("topic %s was deleted and created again while the plan runs: its id was %v and is %v; start all instances again", name, was, t.ID))
		}
	}
	if len(problems) > 0 {
		return &TopicsError{Problems: problems}
	}
	return nil
}

// countChanged says what follows from another partition count of a topic, and how to go on safely.
func (a *App) countChanged(topic string, now int) string {
	was := a.partitions[topic]
	text := fmt.Sprintf("topic %s had %d partitions when this run began and has %d now", topic, was, now)
	if spec, _ := a.plan.Topic(topic); spec.Kind.Internal() {
		return text + fmt.Sprintf(": the plan needs %d; stop all instances, and if its content may be lost delete it with %s --delete --topic %s", was, a.topicsTool(), topic)
	}
	var stores []string
	for _, sub := range a.plan.Subtopologies() {
		if slices.Contains(sub.Sources, topic) {
			for _, st := range sub.Stores {
				stores = append(stores, st.Name)
			}
		}
	}
	if len(stores) == 0 {
		return text + ": start all instances again"
	}
	return text + fmt.Sprintf(": keys now go to other partitions than the one that has their state (%s). To go on, put a Rekey that keeps the key in front of the state, with ops.Partitions(%d), "+
		"so that state stays where it is; or copy the topic to one with the count wanted, and start a plan of another name on it", strings.Join(stores, ", "), was)
}

// ensureInternal creates the internal topics that are missing, and verifies counts and
// settings of all.
func (a *App) ensureInternal(ctx context.Context, specs []topology.TopicSpec, counts map[string]int) error {
	var names []string
	byName := map[string]topology.TopicSpec{}
	for _, s := range specs {
		if _, ok := counts[s.Name]; ok {
			names = append(names, s.Name)
			byName[s.Name] = s
		}
	}
	notes, err := a.groupNotes(ctx) // before the topics: another instance may create those, and commit, at this moment
	if err != nil {
		return err
	}
	if err := a.checkNames(notes); err != nil || len(names) == 0 {
		return err
	}
	found, err := a.log.Topics(ctx, names...)
	if err != nil {
		return err
	}
	if err := a.verifyInternal(ctx, found, byName, counts); err != nil {
		return err
	}
	if err := a.checkNotes(found, notes); err != nil {
		return err
	}
	if err := a.checkForgotten(ctx, found, notes); err != nil {
		return err
	}
	var create []commitlog.TopicSpec
	for _, name := range names {
		if _, ok := found[name]; !ok {
			create = append(create, commitlog.TopicSpec{Name: name, Partitions: counts[name], Replication: a.cfg.Replication, Config: byName[name].Config})
		}
	}
	if len(create) == 0 {
		return nil
	}
	if err := a.log.CreateTopics(ctx, create); err != nil {
		return fmt.Errorf("create internal topics: %w", err)
	}
	for _, c := range create {
		a.cfg.Logger.Info("created topic", "topic", c.Name, "partitions", c.Partitions)
	}
	// Another instance may have created them at the same time, so what exists now is verified again.
	if found, err = a.log.Topics(ctx, names...); err != nil {
		return err
	}
	return a.verifyInternal(ctx, found, byName, counts)
}

func (a *App) verifyInternal(ctx context.Context, found map[string]commitlog.Topic, specs map[string]topology.TopicSpec, counts map[string]int) error {
	existing := slices.Sorted(maps.Keys(found))
	if len(existing) == 0 {
		return nil
	}
	configs, err := a.log.TopicConfigs(ctx, existing...)
	if err != nil {
		return err
	}
	var problems []string
	for _, name := range existing {
		a.topicIDs[name] = found[name].ID
		a.noteLimit(name, configs[name])
		kind := specs[name].Kind
		if have, want := found[name].Partitions, counts[name]; have != want {
			problems = append(problems, fmt.Sprintf("%s topic %s has %d partitions, want %d: stop all instances, then %s --delete --topic %s if its content may be lost",
				kind, name, have, want, a.topicsTool(), name))
		}
		for _, setting := range binding {
			have, want := configs[name][setting], specs[name].Config[setting]
			if want == "" || have == "" || have == want {
				continue
			}
			problems = append(problems, fmt.Sprintf("%s topic %s has %s=%s, want %s: %s --alter --topic %s --add-config %s=%s",
				kind, name, setting, have, want, tool("kafka-configs.sh", a.bootstrap()), name, setting, want))
		}
	}
	if len(problems) > 0 {
		return &TopicsError{Problems: problems}
	}
	return nil
}

// binding are the settings of an internal topic with which records are lost or change when they are not as
// planned. Others are the operator's to tune.
var binding = []string{"cleanup.policy", "retention.ms", "message.timestamp.type"}

// bootstrap is the cluster's address, empty if the config has none.
func (a *App) bootstrap() string { return strings.Join(a.cfg.Brokers, ",") }

// tool is the beginning of a command for the cluster at an address, "BROKERS" if it is empty.
func tool(script, bootstrap string) string {
	return script + " --bootstrap-server " + cmp.Or(bootstrap, "BROKERS")
}

func (a *App) topicsTool() string { return tool("kafka-topics.sh", a.bootstrap()) }

// stopAll begins what is to be done with a group's offsets: the tool refuses to touch those of a group that has members.
const stopAll = "stop all instances (one that has an InstanceID stays in the group for SessionTimeout, and the tool refuses until then)"

// groupTool is the beginning of a command about a group's offsets of the partitions.
func groupTool(bootstrap, group string, tps []commitlog.TopicPartition) string {
	command := tool("kafka-consumer-groups.sh", bootstrap) + " --group " + group
	partitions := map[string][]int32{}
	for _, tp := range tps {
		partitions[tp.Topic] = append(partitions[tp.Topic], tp.Partition)
	}
	for _, topic := range slices.Sorted(maps.Keys(partitions)) {
		command += " --topic " + topic
		slices.Sort(partitions[topic])
		for i, p := range partitions[topic] {
			command += fmt.Sprintf("%c%d", ":,"[min(i, 1)], p)
		}
	}
	return command
}

// createCommand is the command that creates a topic; 0 partitions are left to be filled in.
func (a *App) createCommand(topic string, partitions int, config map[string]string) string {
	n := "N"
	if partitions > 0 {
		n = fmt.Sprint(partitions)
	}
	cmd := fmt.Sprintf("%s --create --topic %s --partitions %s", a.topicsTool(), topic, n)
	for _, k := range slices.Sorted(maps.Keys(config)) {
		cmd += fmt.Sprintf(" --config %s=%s", k, config[k])
	}
	return cmd
}
