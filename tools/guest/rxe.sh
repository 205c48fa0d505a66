# Two Soft-RoCE devices, on the two ends of one cable, in one namespace (rxe works in the first one
# alone).  What one end sends to the other crosses the cable, which the kernel would otherwise avoid.
ip link set lo up
ip link add v0 type veth peer name v1
for i in 0 1; do
	echo 0 >/proc/sys/net/ipv4/conf/v$i/rp_filter
	echo 1 >/proc/sys/net/ipv4/conf/v$i/accept_local
	echo 0 >/proc/sys/net/ipv6/conf/v$i/accept_dad
	ip link set v$i mtu ${GUEST_MTU:-4200}
	ip addr add 10.77.0.$((i + 1))/24 dev v$i
	ip link set v$i up
done
echo 0 >/proc/sys/net/ipv4/conf/all/rp_filter
ip rule add pref 10 iif v0 lookup local
ip rule add pref 11 iif v1 lookup local
ip route add 10.77.0.2 dev v0 src 10.77.0.1 table 101
ip route add 10.77.0.1 dev v1 src 10.77.0.2 table 102
ip rule add pref 20 oif v0 lookup 101
ip rule add pref 21 oif v1 lookup 102
ip rule add pref 22 from 10.77.0.1 to 10.77.0.2 lookup 101
ip rule add pref 23 from 10.77.0.2 to 10.77.0.1 lookup 102
ip rule add pref 100 lookup local
ip rule del pref 0
rdma link add rxe0 type rxe netdev v0 && rdma link add rxe1 type rxe netdev v1
chmod 666 /dev/infiniband/*
